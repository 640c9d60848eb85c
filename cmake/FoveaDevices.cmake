# libfovea_cuda.so and libfovea_vulkan.so are opened at run time (src/device/device.cc). Each is built
# where its toolkit is found; ON makes a missing toolkit an error.
function(fovea_device_library kind)
  add_library(fovea_${kind} MODULE ${ARGN})
  target_include_directories(fovea_${kind} PRIVATE ${PROJECT_SOURCE_DIR}/src
    ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(fovea_${kind} PRIVATE fovea_flags)
  set_target_properties(fovea_${kind} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  install(TARGETS fovea_${kind} LIBRARY DESTINATION lib)
endfunction()

file(GLOB_RECURSE FOVEA_CUDA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_cuda.cu)
if(NOT FOVEA_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES 75-virtual 80-virtual 90a-real)
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc takes C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    find_package(CUDAToolkit REQUIRED)
    # Objects, since the tests of single kernels are linked with them too.
    add_library(fovea_cuda_parts OBJECT ${FOVEA_CUDA_SOURCES})
    target_include_directories(fovea_cuda_parts PRIVATE ${PROJECT_SOURCE_DIR}/src
      ${PROJECT_SOURCE_DIR}/include)
    set_target_properties(fovea_cuda_parts PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD 20
      CUDA_VISIBILITY_PRESET hidden)
    # nvcc takes assigning a Result for ignoring one (2810); g++ looks for that in the same files.
    target_compile_options(fovea_cuda_parts PRIVATE --expt-relaxed-constexpr --diag-suppress=2810
      "SHELL:-Xcompiler -ffp-contract=off")
    fovea_device_library(cuda $<TARGET_OBJECTS:fovea_cuda_parts> src/base/buffer.cc)
    set_target_properties(fovea_cuda PROPERTIES LINKER_LANGUAGE CUDA CUDA_RUNTIME_LIBRARY Static)
    target_link_libraries(fovea_cuda PRIVATE CUDA::cublasLt)
    # It finds nothing in the program that opens it.
    target_link_options(fovea_cuda PRIVATE -static-libstdc++ -static-libgcc LINKER:-z,defs)
  elseif(FOVEA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FOVEA_CUDA is ON but no nvcc was found; put it on PATH or set CUDACXX")
  endif()
endif()

if(NOT FOVEA_VULKAN STREQUAL "OFF")
  find_package(Vulkan)
  if(Vulkan_FOUND)
    file(GLOB_RECURSE vulkan_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_vulkan.cc)
    fovea_device_library(vulkan ${vulkan_sources})
    target_link_libraries(fovea_vulkan PRIVATE Vulkan::Vulkan)
  elseif(FOVEA_VULKAN STREQUAL "ON")
    message(FATAL_ERROR "FOVEA_VULKAN is ON but no Vulkan was found; install libvulkan-dev")
  endif()
endif()

if(FOVEA_TESTS AND NOT FOVEA_SANITIZE MATCHES thread)  # an emulation has one
  add_subdirectory(${PROJECT_SOURCE_DIR}/src/device/cuda)  # the same kernels on a CPU
endif()
