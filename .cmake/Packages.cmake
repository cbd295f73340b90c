# What users install:
#
#   cmake --build build --target wheel    build/dist/ddprun-VERSION-py3-none-PLATFORM.whl, for pip
#   cmake --build build --target deb      build/dist/ddprun_VERSION_ARCHITECTURE.deb
#
# Debug information of the programs lies in build/dist/debug.
if(DDPRUN_SANITIZE OR DDPRUN_FUZZ)
  return()
endif()
find_program(DDPRUN_PACKAGE_PYTHON python3)
mark_as_advanced(DDPRUN_PACKAGE_PYTHON)
set(package_tools ${CMAKE_SOURCE_DIR}/.cmake/package)
set(dist ${CMAKE_BINARY_DIR}/dist)
set(programs ddprun ddprun-rendezvous ddprun-nccl-id)
set(stripped ${programs})
list(TRANSFORM stripped PREPEND ${CMAKE_BINARY_DIR}/stripped/)
set(built "")
foreach(program IN LISTS programs)
  list(APPEND built $<TARGET_FILE:${program}>)
endforeach()

add_custom_command(OUTPUT ${stripped}
  COMMAND sh ${package_tools}/strip.sh ${CMAKE_BINARY_DIR}/stripped ${dist}/debug ${built}
  DEPENDS ${programs} ${package_tools}/strip.sh VERBATIM)

# A wheel that promises an old glibc is checked for it, and one that does not is named for this system.
if(DDPRUN_OLD_GLIBC)
  set(platform manylinux_2_28_${CMAKE_SYSTEM_PROCESSOR})
  set(check ${DDPRUN_PACKAGE_PYTHON} ${package_tools}/check_glibc.py ${stripped})
else()
  set(platform linux_${CMAKE_SYSTEM_PROCESSOR})
  set(check ${CMAKE_COMMAND} -E true)
endif()
set(wheel ${dist}/ddprun-${PROJECT_VERSION}-py3-none-${platform}.whl)
file(GLOB wheel_sources CONFIGURE_DEPENDS ${package_tools}/wheel/*.* ${package_tools}/wheel/ddprun/*.py)
add_custom_command(OUTPUT ${wheel}
  COMMAND ${check}
  COMMAND ${DDPRUN_PACKAGE_PYTHON} ${package_tools}/wheel/make_wheel.py --version ${PROJECT_VERSION}
    --platform ${platform} --readme ${package_tools}/wheel/README.md --to ${dist} ${stripped}
  DEPENDS ${stripped} ${wheel_sources} ${package_tools}/check_glibc.py VERBATIM)
add_custom_target(wheel DEPENDS ${wheel})

include(DebianPackage)
