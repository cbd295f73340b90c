# ddprun::warnings: every target of ours links it.
add_library(ddprun_warnings INTERFACE)
add_library(ddprun::warnings ALIAS ddprun_warnings)
# In files that are compiled together (ReadOnce.cmake) a local name may be that of another file.
set(is_together "$<BOOL:$<TARGET_PROPERTY:DDPRUN_IS_TOGETHER>>")
set(options
  -Wall -Wextra -Wpedantic -Werror -Woverloaded-virtual
  -Wno-missing-field-initializers
  $<$<NOT:${is_together}>:-Wshadow>
  $<$<AND:${is_together},$<CXX_COMPILER_ID:GNU>>:-Wshadow=local>
  # With -O2, g++ 12 sees uninitialized members in moves of std::variant that cannot happen.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<NOT:$<CONFIG:Debug>>>:-Wno-maybe-uninitialized>)
target_compile_options(ddprun_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${options}>"
  # Not -Wpedantic: nvcc's own output has line markers of another kind.
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings -Xcompiler=-Wall,-Wextra>")
target_include_directories(ddprun_warnings INTERFACE ${CMAKE_SOURCE_DIR})
