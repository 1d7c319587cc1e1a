# The shared library as users see it: its exports, its names, find_package(cuflash) and pkg-config.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# It exports the C interface and nothing else: not the C++ that it is made of, nor what is linked in.
set(exports ${PROJECT_SOURCE_DIR}/cmake/cuflash_exports.map)
target_link_options(cuflash_attn PRIVATE -Wl,--version-script=${exports})
set_target_properties(cuflash_attn PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${exports}
  EXPORT_NAME cuflash)
target_include_directories(cuflash_attn INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/common/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(cuflash_attn INTERFACE c_std_11 cxx_std_17)
add_library(cuflash::cuflash ALIAS cuflash_attn)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cuflash)
install(TARGETS cuflash_attn EXPORT cuflash LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES
  common/include/cuflash/c_api.h
  common/include/cuflash/dtype.h
  common/include/cuflash/error.h
  common/include/cuflash/flash_attention.h
  common/include/cuflash/problem.h
  common/include/cuflash/version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cuflash)
install(EXPORT cuflash NAMESPACE cuflash:: DESTINATION ${package_dir} FILE cuflashTargets.cmake)
configure_package_config_file(cmake/cuflashConfig.cmake.in cuflashConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# While the major version is 0, a minor one may change the C++ API.
write_basic_package_version_file(cuflashConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cuflashConfig.cmake ${PROJECT_BINARY_DIR}/cuflashConfigVersion.cmake
  DESTINATION ${package_dir})

# The prefix as seen from cuflash.pc. A folder that is absolute stays as it is.
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE libdir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${libdir}/pkgconfig OUTPUT_VARIABLE to_prefix)
cmake_path(APPEND pc_libdir "\${prefix}" ${CMAKE_INSTALL_LIBDIR})
cmake_path(APPEND pc_includedir "\${prefix}" ${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/cuflash.pc.in cuflash.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cuflash.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/cuflash)
