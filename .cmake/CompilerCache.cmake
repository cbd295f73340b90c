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
# What ccache has taken relative begins at the build folder.
cmake_path(RELATIVE_PATH CMAKE_SOURCE_DIR BASE_DIRECTORY ${CMAKE_BINARY_DIR} OUTPUT_VARIABLE up)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${up}/=./>")
# A precompiled header of g++ is one of the inputs: what it holds is compared, not when it was written.
# One of clang's holds absolute paths, its own headers' among them, and serves no other clone: without
# them a clean build takes as long as with them, and the next clone's a tenth.
#
# What a file includes is known from the compiler's list of dependencies, and compared as it stands
# on the disk (CCACHE_DEPEND). ccache would otherwise compare what the preprocessor makes of it, which
# costs a tenth of each compilation, and is too little: g++ knows by the whole text of a header with
# #pragma once that a precompiled header holds it, and defines everything again if as little as a
# comment or an unused macro differs.
set(launcher env
  CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
  CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
  CCACHE_MAXSIZE=5G ${DDPRUN_CCACHE})
set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
else()
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>")
endif()
