# What no program calls is left out of it: files are compiled several at a time, and a library's
# object brings all of its functions along. ddprun is a sixth smaller for it, and so is what each
# agent has in memory.
if(NOT DDPRUN_SANITIZE AND NOT DDPRUN_FUZZ)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections>
                      $<$<COMPILE_LANGUAGE:CXX>:-fdata-sections>)
  add_link_options(-Wl,--gc-sections)
  # What the compiler takes to run seldom (errors, start-up) lies apart from the rest, as GNU's linker
  # has it by itself: the kernel maps 64 KiB round each page that is touched, which is most of an
  # agent's memory.
  include(CheckLinkerFlag)
  check_linker_flag(CXX -Wl,-z,keep-text-section-prefix DDPRUN_LINKS_COLD_CODE_APART)
  if(DDPRUN_LINKS_COLD_CODE_APART)
    add_link_options(-Wl,-z,keep-text-section-prefix)
  endif()
endif()
