# DDPRUN_COMPILER_CACHE: what was compiled once, in this folder or in another clone, is not compiled
# again. ccache (https://ccache.dev) is used where it is installed, with its own folder; a launcher
# that the user has named (CMAKE_CXX_COMPILER_LAUNCHER) is left as it is.
#
# Clones differ in their absolute paths alone: those of the compiler's command line are taken
# relative (CCACHE_BASEDIR), the working folder does not count (CCACHE_NOHASHDIR), and what lands in
# the objects (debug information, __FILE__, assertions) begins below the source folder.
option(DDPRUN_COMPILER_CACHE "Compile through ccache where it is installed" ON)
add_compile_options(
  "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_BINARY_DIR}=build>"
  "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.>")

find_program(DDPRUN_CCACHE ccache)
mark_as_advanced(DDPRUN_CCACHE)
if(NOT DDPRUN_COMPILER_CACHE OR CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()
if(NOT DDPRUN_CCACHE)
  message(STATUS "compiler cache: none (apt: ccache)")
  return()
endif()
message(STATUS "compiler cache: ${DDPRUN_CCACHE}")
# A precompiled header is one of the inputs, and CMake's names its headers by absolute paths: what it
# holds is compared, not when it was written. -Xclang -fno-pch-timestamp and -fpch-preprocess are
# what ccache asks for on the compilers' side.
set(launcher env
  CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
  CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
  CCACHE_MAXSIZE=5G ${DDPRUN_CCACHE})
set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
else()
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>")
endif()
