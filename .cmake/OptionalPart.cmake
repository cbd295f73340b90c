# A part that is built where what it needs is found: an option of the name DDPRUN_WITH_... is auto,
# ON (what is missing is an error) or OFF (nothing is looked for).
include_guard(GLOBAL)

# ddprun_check_option(OPTION): another value is an error.
function(ddprun_check_option option)
  if(NOT ${option} MATCHES "^(auto|ON|OFF)$")
    message(FATAL_ERROR "${option} is '${${option}}': use auto, ON or OFF")
  endif()
endfunction()

# ddprun_tell_missing(LABEL OPTION MISSING): says why the part is left out, where it is.
function(ddprun_tell_missing label option missing)
  if(missing AND ${option} STREQUAL ON)
    message(FATAL_ERROR "${option}=ON, but ${missing}")
  elseif(missing)
    message(STATUS "${label}: left out: ${missing}")
  endif()
endfunction()
