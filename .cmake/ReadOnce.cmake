# What takes long to read and is included nearly everywhere is read once: precompiled headers, and
# files that are compiled together.
#
# Each file still includes what it uses, and has names of its own within its folder:
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DDDPRUN_COMPILE_TOGETHER=OFF show it.
#
# The headers of ours are named as in <>: an absolute path would make each clone's another one.
set(DDPRUN_STANDARD_HEADERS
  <algorithm> <array> <charconv> <chrono> <deque> <filesystem> <fstream> <functional> <map> <memory>
  <optional> <set> <span> <sstream> <string> <string_view> <thread> <utility> <variant> <vector>
  <boost/system/result.hpp>)
set(DDPRUN_CORE_HEADERS
  ${DDPRUN_STANDARD_HEADERS} <rendezvous/core/messages/messages.hpp>)
set(DDPRUN_ASIO_HEADERS <boost/asio.hpp>)
set(DDPRUN_TEST_HEADERS <tests/support/catch.hpp> ${DDPRUN_CORE_HEADERS})
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
# include takes longer than they do. The group of a file depends on its name: a new file is put
# beside some, and changes nothing for others.
#
# CMake's own unity builds include files by their absolute paths, and so no file that they write is
# the same in another clone: the compiler cache would have to preprocess each to find it.
function(ddprun_compile_together target files_at_a_time)
  if(NOT DDPRUN_COMPILE_TOGETHER)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(folders)
  foreach(source IN LISTS sources)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    cmake_path(ABSOLUTE_PATH source NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR ${path} is_written)
    if(NOT source MATCHES "\\.cpp$" OR options OR definitions OR is_written)
      continue()  # a header, a file that is compiled in a way of its own, a file of this build
    endif()
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    cmake_path(GET path PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND folders ${folder})
    list(APPEND sources_in_${folder} ${source})
    set(path_of_${source} ${path})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    list(LENGTH sources_in_${folder} count)
    math(EXPR groups "(${count} + ${files_at_a_time} - 1) / ${files_at_a_time}")
    math(EXPR last "${groups} - 1")
    foreach(source IN LISTS sources_in_${folder})
      cmake_path(GET source FILENAME name)
      string(MD5 hash ${name})
      string(SUBSTRING ${hash} 0 6 hash)
      math(EXPR group "0x${hash} % ${groups}")
      string(APPEND text_${folder}_${group} "#include \"${path_of_${source}}\"\n")
      list(REMOVE_ITEM sources ${source})
    endforeach()
    foreach(group RANGE ${last})
      if(DEFINED text_${folder}_${group})
        set(written ${CMAKE_CURRENT_BINARY_DIR}/${target}_together/${folder}_${group}.cpp)
        file(CONFIGURE OUTPUT ${written} CONTENT "${text_${folder}_${group}}" @ONLY)
        list(APPEND sources ${written})
      endif()
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${sources}" DDPRUN_IS_TOGETHER ON)
endfunction()
