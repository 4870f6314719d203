# Hardening of the installed programs: checked calls of the C library, stack protectors, checked
# standard containers, and a position-independent program with read-only relocations. Sanitized
# builds have their own checks. tests/install/hardening_test.sh checks the program for each of
# these.
if(NOT TRIREME_SANITIZE)
  target_compile_options(trireme_flags INTERFACE
    -fstack-protector-strong -fPIE $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
  target_compile_definitions(trireme_flags INTERFACE _GLIBCXX_ASSERTIONS)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 warns that the growth of a checked std::vector writes past its end.
    target_compile_options(trireme_flags INTERFACE -Wno-stringop-overflow)
  endif()
  target_link_options(trireme_flags INTERFACE -pie -Wl,-z,relro,-z,now,-z,noexecstack)
endif()
