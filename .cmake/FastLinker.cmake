# DDPRUN_LINKER: mold (https://github.com/rui314/mold) where it is installed takes a quarter of the
# time of GNU's linker for the tests, and link-time optimization works with it. One that the user
# has named with -fuse-ld stays.
set(DDPRUN_LINKER auto CACHE STRING "The linker: auto (mold where it is installed), mold, lld, gold or bfd")
if("${CMAKE_EXE_LINKER_FLAGS} ${CMAKE_CXX_FLAGS}" MATCHES "-fuse-ld=")
  return()
endif()
include(CheckLinkerFlag)
if(DDPRUN_LINKER STREQUAL auto)
  set(wanted mold)
else()
  set(wanted ${DDPRUN_LINKER})
endif()
check_linker_flag(CXX -fuse-ld=${wanted} DDPRUN_LINKS_WITH_${wanted})
if(DDPRUN_LINKS_WITH_${wanted})
  add_link_options($<$<LINK_LANGUAGE:C,CXX>:-fuse-ld=${wanted}>)
elseif(NOT DDPRUN_LINKER STREQUAL auto)
  message(FATAL_ERROR "DDPRUN_LINKER is ${wanted}, and the compiler cannot link with it: "
    "install it, or leave DDPRUN_LINKER out")
endif()
