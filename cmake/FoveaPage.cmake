# The page of fovea serve and fovea view is one HTML file, joined from apps/view/page and built into
# the program. Its policy allows the one script and the one style in it, by their hashes.
set(page_dir ${CMAKE_CURRENT_SOURCE_DIR}/view/page)
set(page_scripts trace stage gestures panel ask page)  # in the order they stand in the page
set(page_script "\n\"use strict\";\n(() => {\n")
set(page_sources ${page_dir}/page.html ${page_dir}/page.css)
foreach(name ${page_scripts})
  file(READ ${page_dir}/${name}.js part)
  string(APPEND page_script "${part}")
  list(APPEND page_sources ${page_dir}/${name}.js)
endforeach()
string(APPEND page_script "})();\n")
file(READ ${page_dir}/page.css page_style)
file(READ ${page_dir}/page.html page)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page_sources})

# Sets `result` to the SHA-256 of a text as base64: three hexadecimal digits are two of its letters.
function(fovea_sha256 text result)
  set(letters ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  string(SHA256 digits "${text}")
  string(APPEND digits 00)  # 256 bits end inside a letter
  set(all "")
  foreach(at RANGE 0 63 3)
    string(SUBSTRING ${digits} ${at} 3 three)
    math(EXPR high "0x${three} >> 6")
    math(EXPR low "0x${three} & 63")
    string(SUBSTRING ${letters} ${high} 1 first)
    string(SUBSTRING ${letters} ${low} 1 second)
    string(APPEND all ${first}${second})
  endforeach()
  string(SUBSTRING ${all} 0 43 all)
  set(${result} "${all}=" PARENT_SCOPE)
endfunction()
fovea_sha256("${page_script}" script_hash)
fovea_sha256("${page_style}" style_hash)
string(CONCAT page_policy "default-src 'none'; script-src 'sha256-${script_hash}'; "
  "style-src 'sha256-${style_hash}'; img-src data: blob:; connect-src 'self'; base-uri 'none'; "
  "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'")

string(REPLACE "@policy@" "${page_policy}" page "${page}")
string(REPLACE "@style@" "${page_style}" page "${page}")
string(REPLACE "@trace@" "<!--trace-->\n" page "${page}")
string(REPLACE "@script@" "${page_script}" page "${page}")
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/page.html @ONLY CONTENT "@page@")
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/page_policy.h @ONLY CONTENT [=[
#pragma once
namespace fovea::view {
inline constexpr char kPagePolicy[] = "@page_policy@";
}
]=])
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/page.S @ONLY CONTENT [=[
    .section .rodata
    .global fovea_page_begin
    .global fovea_page_end
    .balign 16
fovea_page_begin:
    .incbin "@CMAKE_CURRENT_BINARY_DIR@/page.html"
fovea_page_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
]=])
set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/page.S PROPERTIES
  OBJECT_DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/page.html)
