# The font of the pictures is built into the library, so that the program needs no font at run time.
find_file(FOVEA_FONT DejaVuSans.ttf PATHS /usr/share/fonts/truetype/dejavu /usr/share/fonts/dejavu
          /usr/share/fonts/TTF REQUIRED)
enable_language(ASM)
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/font.S @ONLY CONTENT [=[
    .section .rodata
    .global fovea_font_begin
    .global fovea_font_end
    .balign 16
fovea_font_begin:
    .incbin "@FOVEA_FONT@"
fovea_font_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
]=])
target_sources(fovea PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/font.S)
