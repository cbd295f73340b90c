# What no program calls is left out of it: files are compiled several at a time, and a library's
# object brings all of its functions along. ddprun is a sixth smaller for it, and so is what each
# agent has in memory.
if(NOT DDPRUN_SANITIZE AND NOT DDPRUN_FUZZ)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections>
                      $<$<COMPILE_LANGUAGE:CXX>:-fdata-sections>)
  add_link_options(-Wl,--gc-sections)
endif()
