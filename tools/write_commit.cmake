# Writes trireme_commit.h, and touches it only where the commit has changed:
# cmake -DOUT=FILE -DROOT=DIR -P write_commit.cmake
execute_process(COMMAND git -C ${ROOT} describe --always --dirty --abbrev=12
                OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT commit)
  set(commit unknown)
endif()
set(text "#pragma once\n#define TRIREME_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
