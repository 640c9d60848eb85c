# Headers of other projects that most files include, read once for each target instead of once for each
# file: a third of the time that a test takes to compile. It is for the library's callers, apps and
# tests; in optimised code GCC 12 would see overflows in std::string where headers are precompiled.
# Files still include what they use: without this (the preset fuzz, and tools/lint, which leaves the
# flags out) a forgotten line is an error.
option(FOVEA_PRECOMPILE "Precompile headers of other projects (GCC)" ON)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(FOVEA_PRECOMPILE OFF)
endif()

set(FOVEA_PRECOMPILED <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem>
    <fstream> <functional> <map> <memory> <mutex> <optional> <random> <span> <string> <string_view>
    <thread> <utility> <vector> <fmt/format.h>)

# fovea_precompile(target [header...]): with these headers too. ccache needs to see which precompiled
# header a file was compiled with.
function(fovea_precompile target)
  if(FOVEA_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${FOVEA_PRECOMPILED} ${ARGN})
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()

# fovea_precompile_as(target other): with what `other` has, which is compiled with the same flags.
function(fovea_precompile_as target other)
  if(FOVEA_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${other})
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()
