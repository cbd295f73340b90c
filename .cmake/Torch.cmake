# LibTorch from the PyPI package `torch`: target ddprun::torch, or none.
#
#   DDPRUN_WITH_TORCH  auto: used when it is found; OFF: not looked for; ON: missing is an error
#   DDPRUN_PYTHON      the Python interpreter whose torch to use (Python.cmake)
#
# Not find_package(Torch): it is a fatal error where no CUDA toolkit is installed. Only libtorch_cpu
# and libc10 are linked: libtorch_cuda takes seconds and gigabytes to load, and CPU work needs none
# of it. The package is found without importing it (0.03 s instead of 2.5 s).
include(${CMAKE_CURRENT_LIST_DIR}/OptionalPart.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/Python.cmake)

# Sets ddprun_torch_folder and ddprun_torch_version, or ddprun_torch_missing to the reason.
function(ddprun_find_torch)
  set(missing "")
  ddprun_python_package(torch lib folder)
  find_path(DDPRUN_GLOO_INCLUDE_DIR gloo/rendezvous/store.h)
  mark_as_advanced(DDPRUN_GLOO_INCLUDE_DIR)
  if(NOT folder)
    set(missing "no Python package torch (asked: ${ddprun_pythons_asked}); ./tests/setup installs it, or name an interpreter with -DDDPRUN_PYTHON=")
  elseif(NOT EXISTS ${folder}/lib/libtorch_cpu.so OR NOT EXISTS ${folder}/include/torch/csrc/api/include)
    set(missing "${folder} has no libtorch_cpu.so or no headers")
  elseif(NOT DDPRUN_GLOO_INCLUDE_DIR)
    set(missing "no gloo/rendezvous/store.h: torch does not ship Gloo's headers; install the Debian package libgloo-dev")
  else()
    file(STRINGS ${folder}/version.py line REGEX "^__version__")
    string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" version "${line}")
    # c10d::Reducer and ProcessGroup change their constructors between versions. Those that
    # worker/torch has been built and tested with: tests/torch_versions.txt.
    if(NOT version MATCHES "^2\\.1[1-5]\\." AND NOT DDPRUN_WITH_TORCH STREQUAL ON)
      set(missing "torch ${version} in ${folder} is not one of 2.11 to 2.15, for which worker/torch is written (-DDDPRUN_WITH_TORCH=ON tries it all the same)")
    endif()
  endif()
  set(ddprun_torch_missing "${missing}" PARENT_SCOPE)
  set(ddprun_torch_folder "${folder}" PARENT_SCOPE)
  set(ddprun_torch_version "${version}" PARENT_SCOPE)
endfunction()

ddprun_check_option(DDPRUN_WITH_TORCH)
if(DDPRUN_WITH_TORCH STREQUAL OFF)
  set(ddprun_torch_missing "DDPRUN_WITH_TORCH=OFF")
elseif(DDPRUN_SANITIZE)
  set(ddprun_torch_missing "the package's libraries are not built with the sanitizers, which would see errors in them")
else()
  ddprun_find_torch()
endif()
ddprun_tell_missing(LibTorch DDPRUN_WITH_TORCH "${ddprun_torch_missing}")
if(ddprun_torch_missing)
  return()
endif()
message(STATUS "LibTorch: ${ddprun_torch_version} in ${ddprun_torch_folder}")
add_library(ddprun_torch INTERFACE)
add_library(ddprun::torch ALIAS ddprun_torch)
target_include_directories(ddprun_torch SYSTEM INTERFACE
  ${ddprun_torch_folder}/include ${ddprun_torch_folder}/include/torch/csrc/api/include
  ${DDPRUN_GLOO_INCLUDE_DIR})
target_compile_definitions(ddprun_torch INTERFACE USE_C10D_GLOO)
# Debug information of torch's headers costs a third of the time to compile and a hundred times
# the size; the work is done inside libtorch_cpu, so what calls it needs no optimizing.
target_compile_options(ddprun_torch INTERFACE -g0 $<$<NOT:$<CONFIG:Debug>>:-O1>)
# Registrations in libtorch_cpu run when it is loaded, whether or not a symbol is used.
target_link_libraries(ddprun_torch INTERFACE
  -Wl,--no-as-needed ${ddprun_torch_folder}/lib/libtorch_cpu.so
  ${ddprun_torch_folder}/lib/libc10.so -Wl,--as-needed)
target_link_options(ddprun_torch INTERFACE -Wl,-rpath,${ddprun_torch_folder}/lib)
