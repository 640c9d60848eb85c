# One program for each *_fuzz.cc, linked with the rooms that read foreign bytes and the rooms below
# them; `.ci/run` runs each for 30 s. Those rooms report their coverage; only the programs get
# libFuzzer's main.
set(fuzzed_sources ${FOVEA_SOURCES})
list(FILTER fuzzed_sources INCLUDE REGEX "/src/(base|device|media|weights|language)/")
add_library(fovea_fuzzed STATIC EXCLUDE_FROM_ALL ${fuzzed_sources})
target_include_directories(fovea_fuzzed PUBLIC include src)
target_compile_definitions(fovea_fuzzed PRIVATE FOVEA_VERSION="${PROJECT_VERSION}")
target_compile_options(fovea_fuzzed PUBLIC -fsanitize=fuzzer-no-link)
target_link_libraries(fovea_fuzzed PUBLIC fovea_flags ${FOVEA_DEPENDENCIES})
add_custom_target(fuzzers)
foreach(source ${FOVEA_FUZZ_SOURCES})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE fovea_fuzzed)
  add_dependencies(fuzzers ${name})
endforeach()
