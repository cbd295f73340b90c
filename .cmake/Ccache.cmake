# A compiler cache is used where it is installed; CMAKE_CXX_COMPILER_LAUNCHER says otherwise.
if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(DDPRUN_CCACHE ccache)
  mark_as_advanced(DDPRUN_CCACHE)
  if(DDPRUN_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${DDPRUN_CCACHE})
  endif()
endif()
