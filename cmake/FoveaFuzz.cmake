# One program for each *_fuzz.cc, linked with the rooms that read foreign bytes and the rooms below
# them; `.ci/run` runs each for 30 s. Those rooms report their coverage; only the programs get
# libFuzzer's main.
set(fuzzed_sources ${FOVEA_SOURCES})
list(FILTER fuzzed_sources INCLUDE REGEX
  "/src/((base|device|media|weights|language)/|gaze/plan_file)")
# What fovea eval reads, without what needs the engine.
foreach(part questions read_questions read_record records score)
  list(APPEND fuzzed_sources ${CMAKE_CURRENT_SOURCE_DIR}/apps/eval/${part}.cc)
endforeach()
list(APPEND fuzzed_sources ${CMAKE_CURRENT_SOURCE_DIR}/apps/kept/kept_lines.cc)
# What fovea batch reads again.
foreach(part batch/answers fovea/answer_json)
  list(APPEND fuzzed_sources ${CMAKE_CURRENT_SOURCE_DIR}/apps/${part}.cc)
endforeach()
# What fovea serve reads.
foreach(part api_error http/http_parser http/http_chunks http/http_head grammar/mend_schema
    grammar/structure
    openai/as_written_cpu openai/as_written_reference openai/chat_request openai/parse_body openai/parse_call
    openai/read_input openai/read_json openai/read_look openai/read_messages
    openai/read_options openai/read_tools openai/responses_request)
  list(APPEND fuzzed_sources ${CMAKE_CURRENT_SOURCE_DIR}/apps/serve/${part}.cc)
endforeach()
# What fovea view reads.
foreach(part check_trace trace_element)
  list(APPEND fuzzed_sources ${CMAKE_CURRENT_SOURCE_DIR}/apps/view/${part}.cc)
endforeach()
file(GLOB_RECURSE app_fuzz_sources CONFIGURE_DEPENDS apps/*_fuzz.cc)
add_library(fovea_fuzzed STATIC EXCLUDE_FROM_ALL ${fuzzed_sources})
target_include_directories(fovea_fuzzed PUBLIC include src apps)
target_compile_definitions(fovea_fuzzed PRIVATE FOVEA_VERSION="${PROJECT_VERSION}")
target_compile_options(fovea_fuzzed PUBLIC -fsanitize=fuzzer-no-link)
target_link_libraries(fovea_fuzzed PUBLIC fovea_flags ${FOVEA_DEPENDENCIES})
add_custom_target(fuzzers)
foreach(source ${FOVEA_FUZZ_SOURCES} ${app_fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE fovea_fuzzed)
  add_dependencies(fuzzers ${name})
endforeach()
