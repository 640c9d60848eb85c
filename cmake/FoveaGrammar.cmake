# xgrammar, which holds answers of the server to a grammar: its C++ alone, where tools/get_xgrammar
# has put its source; ON makes a missing source an error.
set(FOVEA_XGRAMMAR ${PROJECT_SOURCE_DIR}/.cache/xgrammar CACHE PATH "The source of xgrammar")
if(FOVEA_GRAMMAR STREQUAL "OFF")
  return()
endif()
if(NOT EXISTS ${FOVEA_XGRAMMAR}/include/xgrammar/xgrammar.h)
  if(FOVEA_GRAMMAR STREQUAL "ON")
    message(FATAL_ERROR "FOVEA_GRAMMAR is ON but ${FOVEA_XGRAMMAR} holds no xgrammar; "
      "run tools/get_xgrammar")
  endif()
  return()
endif()

# Not what Python calls.
file(GLOB xgrammar_sources ${FOVEA_XGRAMMAR}/cpp/*.cc ${FOVEA_XGRAMMAR}/cpp/converter_ext/*.cc
  ${FOVEA_XGRAMMAR}/cpp/support/*.cc)
add_library(fovea_xgrammar STATIC EXCLUDE_FROM_ALL ${xgrammar_sources})
target_include_directories(fovea_xgrammar SYSTEM PUBLIC ${FOVEA_XGRAMMAR}/include
  ${FOVEA_XGRAMMAR}/3rdparty/dlpack/include PRIVATE ${FOVEA_XGRAMMAR}/3rdparty/picojson)
target_compile_definitions(fovea_xgrammar PRIVATE XGRAMMAR_ENABLE_CPPTRACE=0
  XGRAMMAR_ENABLE_INTERNAL_CHECK=0 XGRAMMAR_LOG_CUSTOMIZE=1)
# What it logs goes through matcher_xgrammar.cc. Its warnings are not ours to mend, and with -O1 it
# compiles in 100 s of one core.
target_compile_options(fovea_xgrammar PRIVATE -w -O1)
set_target_properties(fovea_xgrammar PROPERTIES CXX_STANDARD 17 EXPORT_COMPILE_COMMANDS OFF)
