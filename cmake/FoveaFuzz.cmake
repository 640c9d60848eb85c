# One program for each *_fuzz.cc; `.ci/run` runs each for 30 s. The library reports its coverage to
# them; only they get libFuzzer's main.
target_compile_options(fovea PRIVATE -fsanitize=fuzzer-no-link)
foreach(source ${FOVEA_FUZZ_SOURCES})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_include_directories(${name} PRIVATE src)
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE fovea fovea_flags)
endforeach()
