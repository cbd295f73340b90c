# What takes long to read and is included nearly everywhere is read once: precompiled headers, and
# files that are compiled together.
#
# Each file still includes what it uses, and has names of its own within its folder:
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DDDPRUN_COMPILE_TOGETHER=OFF show it.
set(DDPRUN_STANDARD_HEADERS
  <algorithm> <array> <charconv> <chrono> <deque> <filesystem> <fstream> <functional> <map> <memory>
  <optional> <set> <span> <sstream> <string> <string_view> <thread> <utility> <variant> <vector>
  <boost/system/result.hpp>)
set(DDPRUN_CORE_HEADERS
  ${DDPRUN_STANDARD_HEADERS} ${CMAKE_SOURCE_DIR}/rendezvous/core/messages/messages.hpp)
set(DDPRUN_ASIO_HEADERS <boost/asio.hpp>)
set(DDPRUN_TEST_HEADERS ${CMAKE_SOURCE_DIR}/tests/support/catch.hpp ${DDPRUN_CORE_HEADERS})
# To clang a precompiled header costs what is used of it; to g++ half a second once it holds more than
# this.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND DDPRUN_ASIO_HEADERS ${DDPRUN_CORE_HEADERS})
  list(APPEND DDPRUN_TEST_HEADERS <boost/asio.hpp>)
endif()

# ddprun_may_read_asio_once(TARGETS...): which include Asio, or stand on what does.
function(ddprun_may_read_asio_once)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    foreach(target IN LISTS ARGN)
      target_precompile_headers(${target} REUSE_FROM ddprun_net)
    endforeach()
  endif()
endfunction()

option(DDPRUN_COMPILE_TOGETHER
  "Compile several files as one: half the time for all, more after each change" ON)

# ddprun_compile_together(TARGET FILES): its files FILES at a time, always of one folder. What they
# include takes longer than they do. The group of a file hangs on its name: a new file is put beside
# some, and changes nothing for others.
function(ddprun_compile_together target files_at_a_time)
  if(NOT DDPRUN_COMPILE_TOGETHER)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  set(folders)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    cmake_path(GET folder PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND folders ${folder})
    list(APPEND sources_in_${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    list(LENGTH sources_in_${folder} count)
    math(EXPR groups "(${count} + ${files_at_a_time} - 1) / ${files_at_a_time}")
    foreach(source IN LISTS sources_in_${folder})
      cmake_path(GET source FILENAME name)
      string(MD5 hash ${name})
      string(SUBSTRING ${hash} 0 6 hash)
      math(EXPR group "0x${hash} % ${groups}")
      set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${folder}_${group})
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
