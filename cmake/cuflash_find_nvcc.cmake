# CMAKE_CUDA_COMPILER: the compiler that the environment variable CUDACXX names, else the nvcc that is
# found; not set if there is none.
if(DEFINED ENV{CUDACXX})
  set(CMAKE_CUDA_COMPILER "$ENV{CUDACXX}" CACHE FILEPATH "The CUDA compiler")
else()
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin
               PATHS /usr/local/cuda DOC "The CUDA compiler")
endif()
