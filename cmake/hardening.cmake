# Hardening of what users run: checked calls of the C library, stack protectors, checked standard
# containers, a position-independent program whose relocations are read-only. Sanitized builds have
# checks of their own. tests/install/hardening_test.sh looks for each of these in the program.
if(NOT TRIREME_SANITIZE)
  target_compile_options(trireme_flags INTERFACE
    -fstack-protector-strong -fPIE $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
  target_compile_definitions(trireme_flags INTERFACE _GLIBCXX_ASSERTIONS)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 takes the growth of a checked std::vector for a write behind its end.
    target_compile_options(trireme_flags INTERFACE -Wno-stringop-overflow)
  endif()
  target_link_options(trireme_flags INTERFACE -pie -Wl,-z,relro,-z,now,-z,noexecstack)
endif()
