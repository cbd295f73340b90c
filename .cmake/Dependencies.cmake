# What every build needs, from Debian 12 packages; tests/setup installs them.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.81 REQUIRED COMPONENTS filesystem system)
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_path(SPDLOG_INCLUDE_DIR spdlog/spdlog.h REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)  # its code goes into worker/snapshot/checksum.cpp

# spdlog and fmt as headers: Debian ships no static library of either.
add_library(ddprun_spdlog INTERFACE)
add_library(ddprun::spdlog ALIAS ddprun_spdlog)
target_include_directories(ddprun_spdlog SYSTEM INTERFACE ${SPDLOG_INCLUDE_DIR})
target_compile_definitions(ddprun_spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)

# The static library: it goes where the program goes.
find_path(SQLITE_INCLUDE_DIR sqlite3.h REQUIRED)
find_library(SQLITE_LIBRARY NAMES libsqlite3.a REQUIRED)
add_library(ddprun_sqlite INTERFACE)
add_library(ddprun::sqlite ALIAS ddprun_sqlite)
target_include_directories(ddprun_sqlite SYSTEM INTERFACE ${SQLITE_INCLUDE_DIR})
target_link_libraries(ddprun_sqlite INTERFACE ${SQLITE_LIBRARY} m ${CMAKE_DL_LIBS} Threads::Threads)

# Asio compiled once (rendezvous/net/asio_impl.cpp).
add_library(ddprun_asio INTERFACE)
add_library(ddprun::asio ALIAS ddprun_asio)
target_link_libraries(ddprun_asio INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(ddprun_asio INTERFACE
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED)

# Our programs carry the C++ runtime and Boost with them; glibc stays dynamic.
add_library(ddprun_program INTERFACE)
add_library(ddprun::program ALIAS ddprun_program)
if(NOT DDPRUN_SANITIZE)
  target_link_options(ddprun_program INTERFACE -static-libstdc++ -static-libgcc)
endif()
ddprun_run_on_old_glibc(ddprun_program)
