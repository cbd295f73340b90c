# Writes a source file that has the texts of the Python files of some folders, and adds it to a
# target.
function(ddprun_embed_python target)
  list(TRANSFORM ARGN APPEND /*.py OUTPUT_VARIABLE patterns)
  file(GLOB files CONFIGURE_DEPENDS ${patterns})
  set(rows "")
  foreach(path ${files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} text)
    get_filename_component(name ${path} NAME_WE)
    string(APPEND rows "    embedded_file{\"${name}\", R\"PYTHON(${text})PYTHON\"},\n")
  endforeach()
  set(written ${CMAKE_CURRENT_BINARY_DIR}/embedded_python.cpp)
  file(CONFIGURE OUTPUT ${written} @ONLY CONTENT
[[#include "launcher/warm/embedded_python.hpp"

namespace ddprun::launcher::warm {

namespace {

constexpr embedded_file rows[] = {
@rows@};

}  // namespace

const std::span<const embedded_file> embedded_python = rows;

}  // namespace ddprun::launcher::warm
]])
  target_sources(${target} PRIVATE ${written})
endfunction()
