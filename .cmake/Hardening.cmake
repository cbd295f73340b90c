# Optimized builds are hardened as Debian's packages are: these programs listen on ports. Sanitizers
# see more, and have their own ways.
if(CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$" AND NOT DDPRUN_SANITIZE
   AND NOT DDPRUN_FUZZ)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>)
  add_compile_definitions(_FORTIFY_SOURCE=2)
  add_link_options(-Wl,-z,relro,-z,now)
endif()
