# What `cmake --install` brings: both programs, and the worker library as a CMake package:
#
#   find_package(ddprun REQUIRED)                    # or: ... COMPONENTS torch nccl torch_cuda
#   target_link_libraries(train PRIVATE ddprun::worker)
#
# Headers lie below include/ddprun, with the paths of this tree.
if(DDPRUN_SANITIZE OR DDPRUN_FUZZ)
  return()
endif()
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(headers ${CMAKE_INSTALL_INCLUDEDIR}/ddprun)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun)

install(TARGETS ddprun ddprun-nccl-id ddprun-rendezvous RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# The worker library, and what it stands on.
set(libraries base core protocol asio net worker)
set(ddprun_components "")
foreach(component torch nccl torch_cuda)
  if(TARGET ddprun_worker_${component})
    list(APPEND libraries worker_${component})
    list(APPEND ddprun_components ${component})
  endif()
endforeach()
foreach(library IN LISTS libraries)
  set_target_properties(ddprun_${library} PROPERTIES EXPORT_NAME ${library})
  install(TARGETS ddprun_${library} EXPORT ddprun
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${headers} ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()
foreach(folder worker rendezvous/base rendezvous/core/messages rendezvous/core/store
    rendezvous/protocol)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/${folder}/ DESTINATION ${headers}/${folder}
    FILES_MATCHING PATTERN "*.hpp")
endforeach()

install(EXPORT ddprun NAMESPACE ddprun:: FILE ddprunTargets.cmake DESTINATION ${package})
configure_package_config_file(${CMAKE_SOURCE_DIR}/.cmake/ddprunConfig.cmake.in
  ${CMAKE_BINARY_DIR}/ddprunConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ddprunConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ddprunConfig.cmake ${CMAKE_BINARY_DIR}/ddprunConfigVersion.cmake
  ${CMAKE_SOURCE_DIR}/.cmake/OptionalPart.cmake ${CMAKE_SOURCE_DIR}/.cmake/Python.cmake
  ${CMAKE_SOURCE_DIR}/.cmake/Torch.cmake
  ${CMAKE_SOURCE_DIR}/.cmake/TorchCuda.cmake ${CMAKE_SOURCE_DIR}/.cmake/Nccl.cmake
  DESTINATION ${package})
