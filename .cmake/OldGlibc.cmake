# DDPRUN_OLD_GLIBC: programs that are built on a current system run on every one from glibc 2.28 on
# (RHEL 8, Ubuntu 20.04, Debian 11, ...), where PyTorch's own wheels run. rendezvous/glibc says how.
# glibc itself stays dynamic, so that host names are resolved as the node is set up to do it.
include(CMakeDependentOption)
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("
#include <features.h>
#if !defined(__GLIBC__) || !__GLIBC_PREREQ(2, 35) || !(defined(__x86_64__) || defined(__aarch64__))
#error
#endif
int main() {}" DDPRUN_HAS_NEW_GLIBC)
set(is_kept_old FALSE)
if(DDPRUN_HAS_NEW_GLIBC AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT DDPRUN_SANITIZE AND NOT DDPRUN_FUZZ)
  set(is_kept_old TRUE)
endif()
cmake_dependent_option(DDPRUN_OLD_GLIBC "Programs run on glibc 2.28 and newer (g++ only)" ON
  "is_kept_old" OFF)

# ddprun_tell_oldest_glibc(SOURCE): SOURCE knows it as DDPRUN_OLDEST_GLIBC.
function(ddprun_tell_oldest_glibc source)
  if(DDPRUN_OLD_GLIBC)
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS DDPRUN_OLDEST_GLIBC="2.28")
  endif()
endfunction()

# ddprun_run_on_old_glibc(TARGET): programs that link TARGET do.
function(ddprun_run_on_old_glibc target)
  if(NOT DDPRUN_OLD_GLIBC)
    return()
  endif()
  set(folder ${CMAKE_SOURCE_DIR}/rendezvous/glibc)
  add_library(ddprun_glibc OBJECT ${folder}/older_versions.cpp ${folder}/newer_functions.cpp
    ${folder}/find_object.cpp ${folder}/program_start.cpp)
  target_include_directories(ddprun_glibc PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(ddprun_glibc PRIVATE -fno-lto -fno-stack-protector)
  # Empty on a current system, where nothing asks for them; on older ones they hold the threads.
  target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:$<TARGET_OBJECTS:ddprun_glibc>>
    -Wl,--push-state,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -Wl,--pop-state m)
endfunction()
