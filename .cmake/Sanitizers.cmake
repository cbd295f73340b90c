# DDPRUN_SANITIZE: sanitizers for everything in the build. Code can ask DDPRUN_SANITIZED, where what
# is measured is the sanitizer's.
if(DDPRUN_SANITIZE)
  add_compile_definitions(DDPRUN_SANITIZED)
endif()
if(DDPRUN_SANITIZE STREQUAL "address")
  # Not vptr: to look at an object it opens a pipe, and takes a process that has no descriptor left
  # (some tests see to that) for one with a damaged object.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Its mark in front of each function is none that clang 14 can give a coroutine.
    add_compile_options(-fno-sanitize=function)
  endif()
  add_link_options(-fsanitize=address,undefined)
elseif(DDPRUN_SANITIZE STREQUAL "thread")
  # Asio uses atomic_thread_fence, which g++ warns about under TSan.
  add_compile_options(-fsanitize=thread $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  add_link_options(-fsanitize=thread)
elseif(DDPRUN_SANITIZE)
  message(FATAL_ERROR "DDPRUN_SANITIZE is '${DDPRUN_SANITIZE}': use address or thread")
endif()

# DDPRUN_FUZZ: coverage for libFuzzer in everything, so that tests/fuzz can be built with it.
if(DDPRUN_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "DDPRUN_FUZZ needs clang: -DCMAKE_CXX_COMPILER=clang++-14")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
