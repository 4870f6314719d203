# The files of `cmake --install` and of the packages: the program with its manual page, completions,
# data files and documentation (component program), and the library (component development).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(data_dir ${CMAKE_INSTALL_DATADIR}/trireme)
set(package_dir lib/cmake/trireme)

# All layers are one archive, so that a user links one library.
add_library(trireme_library STATIC)
foreach(layer ${layers})
  if(TARGET trireme_${layer})
    target_sources(trireme_library PRIVATE $<TARGET_OBJECTS:trireme_${layer}>)
  endif()
endforeach()
foreach(isa avx2 avx512 avx512_bf16 amx_bf16)
  target_sources(trireme_library PRIVATE $<TARGET_OBJECTS:trireme_kernels_${isa}>)
endforeach()
set_target_properties(trireme_library PROPERTIES
                      OUTPUT_NAME trireme EXPORT_NAME trireme LINKER_LANGUAGE CXX)
target_compile_features(trireme_library INTERFACE cxx_std_20)
target_include_directories(trireme_library INTERFACE
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(trireme_library PRIVATE
                      Threads::Threads fmt::fmt xxhash zstd z png jpeg crypto isal tomlplusplus)
set(TRIREME_NEEDS_MPI OFF)
if(mpi_sources)
  set(TRIREME_NEEDS_MPI ON)
  target_link_libraries(trireme_library PRIVATE MPI::MPI_CXX)
endif()

install(TARGETS trireme_library EXPORT trireme_targets
        ARCHIVE DESTINATION lib COMPONENT development)
install(DIRECTORY include/trireme ${CMAKE_BINARY_DIR}/include/trireme
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT trireme_targets NAMESPACE trireme:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(cmake/trireme-config.cmake.in ${CMAKE_BINARY_DIR}/trireme-config.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the library's API.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/trireme-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/trireme-config.cmake
              ${CMAKE_BINARY_DIR}/trireme-config-version.cmake
        DESTINATION ${package_dir} COMPONENT development)
install(DIRECTORY examples/library DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
        COMPONENT development)

# The program itself prints its manual page and its shell completions.
set(manual_dir ${CMAKE_BINARY_DIR}/manual)
file(MAKE_DIRECTORY ${manual_dir})
add_custom_command(OUTPUT ${manual_dir}/trireme.1.gz ${manual_dir}/trireme.bash
                          ${manual_dir}/_trireme ${manual_dir}/trireme.fish
                   COMMAND $<TARGET_FILE:trireme> help --man | gzip -9n >${manual_dir}/trireme.1.gz
                   COMMAND $<TARGET_FILE:trireme> completion bash >${manual_dir}/trireme.bash
                   COMMAND $<TARGET_FILE:trireme> completion zsh >${manual_dir}/_trireme
                   COMMAND $<TARGET_FILE:trireme> completion fish >${manual_dir}/trireme.fish
                   DEPENDS trireme)
add_custom_target(trireme_manual ALL DEPENDS ${manual_dir}/trireme.1.gz)

install(TARGETS trireme RUNTIME COMPONENT program)
install(FILES ${manual_dir}/trireme.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${manual_dir}/trireme.bash RENAME trireme
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
install(FILES ${manual_dir}/trireme.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
        COMPONENT program)
# Debian's zsh searches site-functions below /usr/local and vendor-completions below /usr.
set(zsh_script ${manual_dir}/_trireme)
configure_file(cmake/install_zsh.cmake.in ${CMAKE_BINARY_DIR}/install_zsh.cmake @ONLY)
install(SCRIPT ${CMAKE_BINARY_DIR}/install_zsh.cmake COMPONENT program)
install(DIRECTORY models clusters failures configs DESTINATION ${data_dir} COMPONENT program)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT program)
install(FILES README.md ARCHITECTURE.md LICENSE SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
        COMPONENT program)
