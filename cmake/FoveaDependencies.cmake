# What the library links. FoveaInstall writes the same list into the package configuration.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(fmt REQUIRED)
find_package(Freetype REQUIRED)
find_package(CLI11 REQUIRED)          # the program alone, as the next two lines
find_package(Boost 1.81 REQUIRED)
pkg_check_modules(curl REQUIRED IMPORTED_TARGET libcurl>=7.85)
find_package(nlohmann_json REQUIRED)
pkg_check_modules(webp REQUIRED IMPORTED_TARGET libwebp libwebpdemux)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
set(FOVEA_DEPENDENCIES JPEG::JPEG PNG::PNG PkgConfig::webp PkgConfig::hwy fmt::fmt Freetype::Freetype
    PkgConfig::pcre2 PkgConfig::utf8proc $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>
    Threads::Threads ${CMAKE_DL_LIBS})
