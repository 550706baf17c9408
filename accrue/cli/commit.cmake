# Writes commit.h: which commit of the sources in SOURCE_DIR a program was built from. Run at each build; the file is only
# touched when the commit has changed.
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --abbrev=12 --dirty --match nothing
                OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "#pragma once

namespace accrue {

inline constexpr const char* kCommit = \"${commit}\";

}  // namespace accrue
")
