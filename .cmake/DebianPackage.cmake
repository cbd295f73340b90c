# What goes into the .deb, as its own component: programs without debug information, their manual pages
# and completions, and the units of systemd. `cmake --install` does not bring them.
find_program(DDPRUN_GZIP gzip)
mark_as_advanced(DDPRUN_GZIP)
if(NOT DDPRUN_GZIP OR NOT CMAKE_CPACK_COMMAND)
  return()
endif()
set(made ${CMAKE_BINARY_DIR}/deb)
set(pages "")

# From the programs' own --help; compressed, as Debian's policy asks, and without a date in it.
function(ddprun_manual_page program section summary)
  set(page ${made}/${program}.${section})
  set(see "")
  foreach(other ${ARGN})
    list(APPEND see --see ${other})
  endforeach()
  add_custom_command(OUTPUT ${page}.gz
    COMMAND ${CMAKE_COMMAND} -E make_directory ${made}
    COMMAND ${DDPRUN_PACKAGE_PYTHON} ${package_tools}/help_to_man.py $<TARGET_FILE:${program}>
      --section ${section} --summary ${summary} ${see} > ${page}
    COMMAND ${DDPRUN_GZIP} -9nf ${page}
    DEPENDS ${program} ${package_tools}/help_to_man.py VERBATIM)
  install(FILES ${page}.gz DESTINATION share/man/man${section} COMPONENT deb EXCLUDE_FROM_ALL)
  set(pages ${pages} ${page}.gz PARENT_SCOPE)
endfunction()
ddprun_manual_page(ddprun 1 "start distributed PyTorch training and keep it running"
  "ddprun-rendezvous(8)" "ddprun-nccl-id(1)")
ddprun_manual_page(ddprun-rendezvous 8 "where the nodes of distributed training jobs meet"
  "ddprun(1)" "systemd.socket(5)")
ddprun_manual_page(ddprun-nccl-id 1 "make unique ids of NCCL for the ranks of a job" "ddprun(1)")

set(completions ${made}/ddprun.bash ${made}/ddprun.zsh)
add_custom_command(OUTPUT ${completions}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${made}
  COMMAND $<TARGET_FILE:ddprun> --print-completion bash > ${made}/ddprun.bash
  COMMAND $<TARGET_FILE:ddprun> --print-completion zsh > ${made}/ddprun.zsh
  DEPENDS ddprun VERBATIM)

set(units ${CMAKE_SOURCE_DIR}/rendezvous/systemd)
install(PROGRAMS ${stripped} DESTINATION bin COMPONENT deb EXCLUDE_FROM_ALL)
install(FILES ${units}/ddprun-rendezvous.service ${units}/ddprun-rendezvous.socket
  DESTINATION lib/systemd/system COMPONENT deb EXCLUDE_FROM_ALL)
install(FILES ${made}/ddprun.bash DESTINATION share/bash-completion/completions RENAME ddprun
  COMPONENT deb EXCLUDE_FROM_ALL)
install(FILES ${made}/ddprun.zsh DESTINATION share/zsh/vendor-completions RENAME _ddprun
  COMPONENT deb EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ddprun)
set(CPACK_PACKAGE_CONTACT "ddprun maintainers <ddprun@localhost>")
set(CPACK_PACKAGE_DIRECTORY ${dist})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL deb)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_DEB_PACKAGE_NAME ddprun)
set(CPACK_DEBIAN_DEB_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_DEB_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DEB_DESCRIPTION "")
file(STRINGS ${package_tools}/deb/description.txt description)
list(JOIN description "\n" CPACK_COMPONENT_DEB_DESCRIPTION)
if(DDPRUN_OLD_GLIBC)
  set(CPACK_DEBIAN_DEB_PACKAGE_DEPENDS "libc6 (>= 2.28)")
else()
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_DEBIAN_DEB_PACKAGE_SUGGESTS "python3")
set(CPACK_DEBIAN_DEB_PACKAGE_CONTROL_EXTRA
  "${package_tools}/deb/postinst;${package_tools}/deb/prerm;${package_tools}/deb/postrm")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_STRIP_FILES OFF)  # they are
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
add_custom_target(deb
  COMMAND ${CMAKE_CPACK_COMMAND} -G DEB --config ${CMAKE_BINARY_DIR}/CPackConfig.cmake
  DEPENDS ${stripped} ${pages} ${completions} WORKING_DIRECTORY ${CMAKE_BINARY_DIR} VERBATIM)
