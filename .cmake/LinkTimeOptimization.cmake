# DDPRUN_LINK_TIME_OPTIMIZATION: ddprun_optimize_as_one(FILES...) has these files optimized together
# whenever they are linked. They hold ordinary code too, for tools that know nothing of it.
include(CMakeDependentOption)
set(is_optimized FALSE)
if(CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo)$" AND NOT DDPRUN_SANITIZE AND NOT DDPRUN_FUZZ)
  set(is_optimized TRUE)
endif()
cmake_dependent_option(DDPRUN_LINK_TIME_OPTIMIZATION "Optimize the store's hot path as one (g++ only)"
  ON "is_optimized;CMAKE_CXX_COMPILER_ID STREQUAL GNU" OFF)

function(ddprun_optimize_as_one)
  if(DDPRUN_LINK_TIME_OPTIMIZATION)
    set_source_files_properties(${ARGN} PROPERTIES
      COMPILE_OPTIONS "-flto=auto;-ffat-lto-objects")
  endif()
endfunction()
