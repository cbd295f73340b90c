# NCCL, for worker/nccl and what stands on it: targets ddprun::nccl_headers and ddprun::nccl, or none.
#
#   DDPRUN_WITH_NCCL  auto: used when it is found; OFF: not looked for; ON: missing is an error
#   NCCL_ROOT         the folder with include/nccl.h and lib/libnccl.so.2; else the CUDA toolkit's or
#                     Debian's, else the one that PyTorch's package brings (DDPRUN_PYTHON)
#
# NCCL's header includes CUDA's runtime: that of the toolkit, else of the same Python packages. The
# runtime goes into the program, as a static library; NCCL is loaded from where it was found.
include(${CMAKE_CURRENT_LIST_DIR}/OptionalPart.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/Python.cmake)

# ddprun_find_pair(NAME HEADER LIBRARY ROOTS...): sets NAME_include and NAME_library to those of the
# first root that has both, or neither.
function(ddprun_find_pair name header library)
  foreach(root IN LISTS ARGN)
    find_library(found NAMES ${library} HINTS ${root} PATH_SUFFIXES
      lib lib64 lib/${CMAKE_LIBRARY_ARCHITECTURE} lib/${CMAKE_SYSTEM_PROCESSOR}-linux-gnu
      targets/x86_64-linux/lib targets/sbsa-linux/lib
      NO_DEFAULT_PATH NO_CACHE)
    if(found AND EXISTS ${root}/${header})
      set(${name}_include ${root}/include PARENT_SCOPE)
      set(${name}_library ${found} PARENT_SCOPE)
      return()
    endif()
    unset(found)
  endforeach()
endfunction()

# Sets ddprun_nccl_{include,library}, ddprun_cudart_{include,library} and ddprun_nccl_version, or
# ddprun_nccl_missing to the reason.
function(ddprun_find_nccl)
  set(roots ${NCCL_ROOT} $ENV{NCCL_ROOT} ${CUDAToolkit_ROOT} $ENV{CUDA_HOME} /usr/local/cuda /usr)
  ddprun_python_package(nvidia.nccl include/nccl.h python_nccl)
  foreach(name cu13 cuda_runtime)
    ddprun_python_package(nvidia.${name} include/crt/host_defines.h python_cuda)
    if(python_cuda)
      break()
    endif()
  endforeach()
  ddprun_find_pair(nccl include/nccl.h libnccl.so.2 ${roots} ${python_nccl})
  # PyTorch's own packages have all of CUDA's headers but those in crt/.
  ddprun_find_pair(cudart include/crt/host_defines.h libcudart_static.a ${roots} ${python_cuda})
  set(missing "")
  set(version "")
  if(NOT nccl_include OR NOT nccl_library)
    list(JOIN roots ", " tried)
    set(missing "no nccl.h with a libnccl.so.2 beside it (in ${tried}, or the Python package nvidia-nccl of ${ddprun_pythons_asked}); ./tests/setup installs PyTorch's, or name a folder with -DNCCL_ROOT=")
  elseif(NOT cudart_include OR NOT cudart_library)
    set(missing "no crt/host_defines.h or no libcudart_static.a (in ${roots}, or the Python packages nvidia-cuda-runtime and nvidia-cuda-crt); ./tests/setup installs them, or name a folder with -DCUDAToolkit_ROOT=")
  else()
    file(STRINGS ${nccl_include}/nccl.h lines REGEX "#define NCCL_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9]+" "." version "${lines}")
    string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" version "${version}")
    if(version VERSION_LESS 2.18)
      set(missing "${nccl_include}/nccl.h is of NCCL ${version}, and worker/nccl needs 2.18 (ncclCommSplit)")
    endif()
  endif()
  foreach(name nccl_include nccl_library cudart_include cudart_library)
    set(ddprun_${name} "${${name}}" PARENT_SCOPE)
  endforeach()
  set(ddprun_nccl_version "${version}" PARENT_SCOPE)
  set(ddprun_nccl_missing "${missing}" PARENT_SCOPE)
endfunction()

ddprun_check_option(DDPRUN_WITH_NCCL)
if(DDPRUN_WITH_NCCL STREQUAL OFF)
  set(ddprun_nccl_missing "DDPRUN_WITH_NCCL=OFF")
else()
  ddprun_find_nccl()
endif()
ddprun_tell_missing(NCCL DDPRUN_WITH_NCCL "${ddprun_nccl_missing}")
if(ddprun_nccl_missing)
  return()
endif()
message(STATUS "NCCL: ${ddprun_nccl_version}, ${ddprun_nccl_library}")
find_package(Threads REQUIRED)
add_library(ddprun_nccl_headers INTERFACE)
add_library(ddprun::nccl_headers ALIAS ddprun_nccl_headers)
target_include_directories(ddprun_nccl_headers SYSTEM INTERFACE
  ${ddprun_nccl_include} ${ddprun_cudart_include})
add_library(ddprun_nccl INTERFACE)
add_library(ddprun::nccl ALIAS ddprun_nccl)
get_filename_component(folder ${ddprun_nccl_library} DIRECTORY)
target_link_libraries(ddprun_nccl INTERFACE ddprun_nccl_headers
  ${ddprun_nccl_library} ${ddprun_cudart_library} Threads::Threads ${CMAKE_DL_LIBS} rt)
target_link_options(ddprun_nccl INTERFACE -Wl,-rpath,${folder})
