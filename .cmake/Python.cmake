# Where a Python package lies, asked without importing it (0.03 s, and torch takes 2.5 s).
#
#   DDPRUN_PYTHON  the interpreter that is asked; else .venv here, else the active virtual
#                  environment, else python3
include_guard(GLOBAL)
set(DDPRUN_PYTHON "" CACHE FILEPATH "Python interpreter whose torch package is used")

# ddprun_python_package(NAME CONTAINS FOLDER): sets FOLDER to that of the package NAME of the first
# interpreter that has one with CONTAINS in it, or to nothing, and ddprun_pythons_asked.
function(ddprun_python_package name contains folder)
  set(pythons ${DDPRUN_PYTHON})
  if(NOT pythons)
    set(pythons ${CMAKE_SOURCE_DIR}/.venv/bin/python "$ENV{VIRTUAL_ENV}/bin/python" python3)
  endif()
  list(JOIN pythons ", " asked)
  set(ddprun_pythons_asked "${asked}" PARENT_SCOPE)
  set(${folder} "" PARENT_SCOPE)
  set(script "
import importlib.util as u
try:
    s = u.find_spec('${name}')
except ModuleNotFoundError:
    s = None
print(list(s.submodule_search_locations)[0] if s and s.submodule_search_locations else '')")
  foreach(python IN LISTS pythons)
    execute_process(COMMAND ${python} -c "${script}"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
    if(status EQUAL 0 AND found AND EXISTS "${found}/${contains}")
      set(${folder} "${found}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()
