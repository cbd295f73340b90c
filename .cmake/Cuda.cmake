# The compiler for .cu files, nvcc: enables the language CUDA, or leaves it out and says why.
#
#   DDPRUN_WITH_CUDA  auto: used when it is found; OFF: not looked for; ON: missing is an error
#
# ddprun_cuda_missing is the reason, or empty. Everything but device code is built without it.
include(${CMAKE_CURRENT_LIST_DIR}/OptionalPart.cmake)
ddprun_check_option(DDPRUN_WITH_CUDA)
set(ddprun_cuda_missing "")
if(DDPRUN_WITH_CUDA STREQUAL OFF)
  set(ddprun_cuda_missing "DDPRUN_WITH_CUDA=OFF")
elseif(DDPRUN_SANITIZE)
  set(ddprun_cuda_missing "CUDA's driver and the sanitizers want the same addresses")
else()
  # Every GPU since Turing: code of the newest architecture that both CUDA 12 and 13 know by number,
  # and of the oldest, which the driver compiles further for all others.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75-virtual 90-real)
  endif()
  find_program(nvcc nvcc HINTS $ENV{CUDA_HOME}/bin ${CUDAToolkit_ROOT}/bin /usr/local/cuda/bin NO_CACHE)
  if(nvcc AND NOT DEFINED ENV{CUDACXX} AND NOT CMAKE_CUDA_COMPILER)
    set(ENV{CUDACXX} ${nvcc})
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION}, ${CMAKE_CUDA_COMPILER}")
  else()
    set(ddprun_cuda_missing "no nvcc that works, in the path or in /usr/local/cuda/bin; -DCMAKE_CUDA_COMPILER= names one")
  endif()
endif()
ddprun_tell_missing(CUDA DDPRUN_WITH_CUDA "${ddprun_cuda_missing}")
