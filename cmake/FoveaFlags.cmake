# The flags every target of the project is compiled with.
add_library(fovea_flags INTERFACE)
target_compile_options(fovea_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wvla>
  # Options are structs with defaults, of which a caller names the fields it cares for.
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>
  # GCC 12 sees overlapping copies in std::string where there are none (its bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  # The same numbers on every machine: no fused multiply-add unless the code asks for it.
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(FOVEA_WERROR)
  target_compile_options(fovea_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(FOVEA_SANITIZE)
  add_compile_options(-fsanitize=${FOVEA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${FOVEA_SANITIZE})
endif()
