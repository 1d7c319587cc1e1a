# NVIDIA GPUs. The architectures are those of each stage (stages/CMakeLists.txt), narrowed to those of
# this machine's devices if they are among them; CUFLASH_CUDA_ARCHITECTURES overrides both.
set(CUFLASH_CUDA_ARCHITECTURES "" CACHE STRING "Architectures to build for, e.g. 80;90;90a")
include(cuflash_find_nvcc)

set(CUFLASH_ARCHITECTURES ${CUFLASH_CUDA_ARCHITECTURES}) # empty: all of each stage
foreach(architecture ${CUFLASH_ARCHITECTURES})
  if(NOT architecture MATCHES "^[0-9]+a?$" OR architecture LESS 75)
    message(FATAL_ERROR "CUFLASH_CUDA_ARCHITECTURES names ${architecture}; write numbers from 75 on, "
                        "with semicolons between them")
  endif()
endforeach()
if(NOT CUFLASH_ARCHITECTURES)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE capabilities ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${capabilities}")
  string(REPLACE "." "" capabilities "${capabilities}")
  foreach(capability ${capabilities})
    if(NOT capability IN_LIST CUFLASH_BUILT_FOR)
      set(CUFLASH_ARCHITECTURES "") # it gets the PTX of an older one
      break()
    endif()
    list(APPEND CUFLASH_ARCHITECTURES ${capability})
    if(${capability}a IN_LIST CUFLASH_EXACT_ARCHITECTURES)
      list(APPEND CUFLASH_ARCHITECTURES ${capability}a)
    endif()
  endforeach()
endif()

# Each is compiled to machine code, and to PTX for newer devices. Where the list names 90a alone, stages
# for other architectures are compiled for all of theirs.
set(narrowed ${CUFLASH_ARCHITECTURES})
list(FILTER narrowed EXCLUDE REGEX a)
if(narrowed)
  set(CUFLASH_BUILT_FOR ${CUFLASH_ARCHITECTURES})
endif()

set(CMAKE_CUDA_ARCHITECTURES 75)  # each stage sets its own
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

target_link_libraries(cuflash_options INTERFACE CUDA::toolkit)
# Instruments (common/device/instruments/points.h).
option(CUFLASH_WATCHDOG "cuda: end kernels that wait for a barrier for seconds, and say which" OFF)
option(CUFLASH_DELAYS "cuda: warps are late at random before waits, arrivals and copies, for tests" OFF)
option(CUFLASH_TIMELINE "cuda: kernels record what their warps do when, for bench/timeline" OFF)
foreach(instrument CUFLASH_WATCHDOG CUFLASH_DELAYS CUFLASH_TIMELINE)
  if(${instrument})
    target_compile_definitions(cuflash_options INTERFACE ${instrument})
  endif()
endforeach()
set(CUFLASH_BACKEND_OBJECTS "")
set(CUFLASH_BACKEND_LIBRARIES CUDA::cudart_static)

# Compiles the kernels of a target for the architectures that the stage names, in rising order (75,
# 80, 90, 90a), or for those in CUFLASH_ARCHITECTURES that can run it.
function(cuflash_compile_kernels target lowest)
  set(named ${lowest} ${ARGN})
  set(built "")
  foreach(architecture ${CUFLASH_ARCHITECTURES})
    # CMake compares 90a as the number 90, but a stage for 90a runs on no other architecture.
    if(architecture IN_LIST named OR
       (NOT "${architecture}${lowest}" MATCHES "a" AND architecture GREATER_EQUAL lowest))
      list(APPEND built ${architecture})
    endif()
  endforeach()
  if(NOT built)
    set(built ${named})
  endif()
  list(REMOVE_DUPLICATES built)
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${built}")
endfunction()

# Where warnings are errors, so are some notes of ptxas. See scripts/maintainer/ptxas_notes.py, which also
# leaves what ptxas says of each kernel beside the object, for scripts/maintainer/record.py.
function(cuflash_check_ptxas_notes target)
  if(CMAKE_COMPILE_WARNING_AS_ERROR)
    set(launcher ${PROJECT_SOURCE_DIR}/scripts/maintainer/ptxas_notes.py ${CMAKE_CUDA_COMPILER_LAUNCHER})
    target_compile_options(${target} PRIVATE -Xptxas=-v)
    set_target_properties(${target} PROPERTIES CUDA_COMPILER_LAUNCHER "${launcher}")
  endif()
endfunction()
