# The CUDA half of LibTorch, for worker/torch_cuda: target ddprun::torch_cuda, or none. It takes
# seconds and gigabytes to load, so what works on CPUs does without.
#
# Its headers include those of CUDA and NCCL: here of the same Python packages, which are the ones
# that it was built with. It is left out with DDPRUN_WITH_NCCL=OFF, and where something is missing.
include(${CMAKE_CURRENT_LIST_DIR}/Python.cmake)
set(ddprun_torch_cuda_missing "")
if(NOT TARGET ddprun_torch)
  set(ddprun_torch_cuda_missing "LibTorch is left out")
elseif(DDPRUN_WITH_NCCL STREQUAL OFF)
  set(ddprun_torch_cuda_missing "DDPRUN_WITH_NCCL=OFF")
elseif(NOT EXISTS ${ddprun_torch_folder}/lib/libtorch_cuda.so)
  set(ddprun_torch_cuda_missing "${ddprun_torch_folder} is a PyTorch for CPUs")
else()
  ddprun_python_package(nvidia.nccl include/nccl.h nccl)
  ddprun_python_package(nvidia.cu13 include/cusolverDn.h cuda)
  find_path(crt crt/host_defines.h HINTS ${cuda} $ENV{CUDA_HOME} /usr/local/cuda PATH_SUFFIXES include
    NO_DEFAULT_PATH NO_CACHE)
  if(NOT nccl OR NOT cuda OR NOT crt)
    set(ddprun_torch_cuda_missing "${ddprun_pythons_asked} have no headers of CUDA 13 and NCCL (the packages that torch comes with, and nvidia-cuda-crt)")
  endif()
endif()
ddprun_tell_missing("LibTorch for CUDA" "auto" "${ddprun_torch_cuda_missing}")
if(NOT ddprun_torch_cuda_missing)
  message(STATUS "LibTorch for CUDA: ${ddprun_torch_folder}/lib/libtorch_cuda.so")
  add_library(ddprun_torch_cuda INTERFACE)
  add_library(ddprun::torch_cuda ALIAS ddprun_torch_cuda)
  target_include_directories(ddprun_torch_cuda SYSTEM INTERFACE ${cuda}/include ${nccl}/include ${crt})
  target_compile_definitions(ddprun_torch_cuda INTERFACE USE_C10D_NCCL)
  target_link_libraries(ddprun_torch_cuda INTERFACE ddprun_torch
    -Wl,--no-as-needed ${ddprun_torch_folder}/lib/libtorch_cuda.so
    ${ddprun_torch_folder}/lib/libc10_cuda.so -Wl,--as-needed)
endif()
