# libfovea_cuda.so and libfovea_vulkan.so are opened at run time (src/device/device.cc). Each is built
# where its toolkit is found; ON makes a missing toolkit an error.
# What they need of the rest of the library, which they do not have: errors, the memory of a
# session, which holds the CPU's pages beside the device's, and the kinds of attention with the order
# of rows that they need.
set(FOVEA_DEVICE_BASE base/buffer.cc base/error.cc base/out_of_memory.cc base/text.cc base/utf8.cc
    memory/page_pool.cc memory/page_table.cc ops/attention/sparse/kinds.cc
    ops/attention/sparse/row_blocks.cc ops/attention/sparse/schedule.cc vision/row_order.cc)
list(TRANSFORM FOVEA_DEVICE_BASE PREPEND ${PROJECT_SOURCE_DIR}/src/)
function(fovea_device_library kind)
  add_library(fovea_${kind} MODULE ${ARGN})
  target_include_directories(fovea_${kind} PRIVATE ${PROJECT_SOURCE_DIR}/src
    ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(fovea_${kind} PRIVATE fovea_flags fmt::fmt-header-only)
  set_target_properties(fovea_${kind} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  install(TARGETS fovea_${kind} LIBRARY DESTINATION lib)
endfunction()

# Kernels are compiled by nvcc; what launches nothing itself takes g++ a fraction of the time.
file(GLOB_RECURSE FOVEA_CUDA_KERNELS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_cuda.cu)
file(GLOB_RECURSE FOVEA_CUDA_HOST_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_cuda.cc)
list(FILTER FOVEA_CUDA_HOST_SOURCES EXCLUDE REGEX "/emulate_cuda\\.cc$")
set(FOVEA_CUDA_ARCHITECTURES 80-virtual 90a-real CACHE STRING
    "What kernels are compiled for; 75-virtual adds GPUs of the Turing generation")
if(NOT FOVEA_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES ${FOVEA_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc takes C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    find_package(CUDAToolkit REQUIRED)
    # Older GPUs than the oldest of these are refused by name.
    string(REGEX MATCHALL "[0-9]+" capabilities "${FOVEA_CUDA_ARCHITECTURES}")
    list(SORT capabilities COMPARE NATURAL)
    list(GET capabilities 0 least_capability)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/device/cuda/cuda_accelerator_cuda.cc
      PROPERTIES COMPILE_DEFINITIONS FOVEA_LEAST_CAPABILITY=${least_capability})
    # Objects, since the tests of single kernels are linked with them too.
    add_library(fovea_cuda_parts OBJECT ${FOVEA_CUDA_KERNELS} ${FOVEA_CUDA_HOST_SOURCES})
    target_include_directories(fovea_cuda_parts PRIVATE ${PROJECT_SOURCE_DIR}/src
      ${PROJECT_SOURCE_DIR}/include)
    set_target_properties(fovea_cuda_parts PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD 20
      CUDA_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden)
    target_link_libraries(fovea_cuda_parts PRIVATE fovea_flags CUDA::cudart_static)
    # nvcc takes assigning a Result for ignoring one (2810); g++ looks for that in the same files.
    target_compile_options(fovea_cuda_parts PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--diag-suppress=2810;-Xcompiler=-ffp-contract=off>")
    fovea_device_library(cuda $<TARGET_OBJECTS:fovea_cuda_parts> ${FOVEA_DEVICE_BASE})
    set_target_properties(fovea_cuda PROPERTIES LINKER_LANGUAGE CUDA CUDA_RUNTIME_LIBRARY Static)
    target_link_libraries(fovea_cuda PRIVATE ${CMAKE_DL_LIBS})  # src/device/cuda/cublaslt.h
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
    fovea_device_library(vulkan ${vulkan_sources} ${FOVEA_DEVICE_BASE})
    target_link_libraries(fovea_vulkan PRIVATE Vulkan::Vulkan)
  elseif(FOVEA_VULKAN STREQUAL "ON")
    message(FATAL_ERROR "FOVEA_VULKAN is ON but no Vulkan was found; install libvulkan-dev")
  endif()
endif()

if(FOVEA_TESTS AND NOT FOVEA_SANITIZE MATCHES thread)  # an emulation has one
  add_subdirectory(${PROJECT_SOURCE_DIR}/src/device/cuda)  # the same kernels on a CPU
endif()
