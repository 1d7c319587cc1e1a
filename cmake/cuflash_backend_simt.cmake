# The CPU simulator: kernels are C++ (the .cu files too), compiled with the hooks that trace accesses.
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBDW REQUIRED IMPORTED_TARGET libdw)
find_library(BOOST_CONTEXT boost_context REQUIRED)
find_package(Threads REQUIRED)

# Every barrier and access keeps its own line: no tail call hides the caller's, and equal lines of
# two branches are not merged. Kernels read arrays as vectors, which nvcc allows and C++ does not. An
# array that a product in flight uses as registers may go out of scope: no other takes its place.
set(cuflash_kernel_flags
  -O2 -g -fno-strict-aliasing -fno-optimize-sibling-calls -fno-tree-tail-merge -fno-crossjumping
  -fno-code-hoisting -fstack-reuse=none)
# One hook for each access in the source: no aggregate is taken apart, no accesses are merged, and no
# loop becomes memset.
set(cuflash_hook_flags
  ${cuflash_kernel_flags} -fsanitize=thread --param=tsan-instrument-func-entry-exit=0
  -fno-extern-tls-init -fno-tree-sra -fno-tree-vectorize -fno-store-merging
  -fno-tree-loop-distribute-patterns)
set(CUFLASH_HAS_HOOKS OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12
   AND NOT CUFLASH_SIMT_ASAN)
  set(CUFLASH_HAS_HOOKS ON)
endif()
if(CUFLASH_SIMT_ASAN)
  add_compile_options(-fsanitize=address -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address)
endif()

target_include_directories(cuflash_options BEFORE INTERFACE ${PROJECT_SOURCE_DIR}/common/simt/include)
target_compile_definitions(cuflash_options INTERFACE CUFLASH_SIMT)
# Link-time optimization loses accesses and their lines.
target_compile_options(cuflash_options INTERFACE -ffp-contract=off -fno-lto)

file(GLOB simt_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/common/simt/*.cpp)
add_library(cuflash_simt OBJECT ${simt_sources})
target_link_libraries(cuflash_simt PUBLIC cuflash_options PkgConfig::LIBDW Threads::Threads)
target_compile_options(cuflash_simt PRIVATE -O2)
set_target_properties(cuflash_simt PROPERTIES UNITY_BUILD ON) # Half the time of a first build.
if(CUFLASH_HAS_HOOKS)
  target_compile_definitions(cuflash_simt PRIVATE CUFLASH_SIMT_HOOKS)
endif()

set(CUFLASH_BACKEND_OBJECTS cuflash_simt)
set(CUFLASH_BACKEND_LIBRARIES PkgConfig::LIBDW ${BOOST_CONTEXT} Threads::Threads)

# Compiles the kernels of a target: .cu files as C++, with the hooks.
function(cuflash_compile_kernels target)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    if(source MATCHES "\\.cu$")
      set_source_files_properties(${source} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++")
    endif()
  endforeach()
  # `#pragma unroll` is a hint for nvcc. A reader who removes a line to try it may leave a name unused.
  target_compile_options(${target} PRIVATE -Wno-unknown-pragmas -Wno-error=unused-parameter
    -Wno-error=unused-variable -Wno-error=unused-but-set-variable)
  if(CUFLASH_HAS_HOOKS)
    target_compile_options(${target} PRIVATE ${cuflash_hook_flags})
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE ${cuflash_kernel_flags})
  endif()
endfunction()
