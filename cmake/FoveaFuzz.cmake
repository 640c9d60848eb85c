# One program for each *_fuzz.cc; `.ci/run` runs each for 30 s.
add_link_options(-fsanitize=fuzzer)
foreach(source ${FOVEA_FUZZ_SOURCES})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_include_directories(${name} PRIVATE src)
  target_link_libraries(${name} PRIVATE fovea fovea_flags)
endforeach()
