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
# What a program includes; other headers come only where one of these needs them.
set(public distributed_sampler environment freed_memory metrics/metrics_file metrics/progress nccl_ids run
  snapshot/checksum snapshot/snapshots stop_request store_client training/data_loader training/loop_driver)
set(public_torch torch/distributed_data_parallel torch/exponential_moving_average torch/metrics
  torch/mixed_precision torch/model_tensors torch/pinned_memory torch/process_group torch/tensor_bytes torch/training_loop torch/training_state)
set(public_nccl nccl/communicator)
set(public_torch_cuda torch_cuda/nccl_backend)
foreach(component IN LISTS ddprun_components)
  list(APPEND public ${public_${component}})
endforeach()
list(TRANSFORM public REPLACE "(.+)" "worker/\\1.hpp")
include(PublicHeaders)
ddprun_with_includes(installed ${public})
foreach(header IN LISTS installed)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${CMAKE_SOURCE_DIR}/${header} DESTINATION ${headers}/${folder})
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
