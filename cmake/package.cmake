# `cpack -G DEB` in a build folder makes the packages trireme, and libtrireme-dev for programs that
# use the library.
set(TRIREME_PACKAGE_MAINTAINER "Trireme developers" CACHE STRING
    "Maintainer of the packages: NAME or NAME <ADDRESS>")
# The signature of a changelog has an e-mail address, which may be empty.
set(DEBIAN_SIGNATURE "${TRIREME_PACKAGE_MAINTAINER}")
if(NOT DEBIAN_SIGNATURE MATCHES ">$")
  string(APPEND DEBIAN_SIGNATURE " <>")
endif()

# Debian requires these files in every package.
foreach(package trireme libtrireme-dev)
  set(folder ${CMAKE_BINARY_DIR}/package/${package})
  set(DEBIAN_PACKAGE ${package})
  configure_file(cmake/debian_changelog.in ${folder}/changelog @ONLY)
  configure_file(cmake/debian_copyright.in ${folder}/copyright @ONLY)
  execute_process(COMMAND gzip -9nf ${folder}/changelog)
  set(component program)
  if(package STREQUAL libtrireme-dev)
    set(component development)
  endif()
  install(FILES ${folder}/changelog.gz ${folder}/copyright
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME trireme)
set(CPACK_PACKAGE_VENDOR Trireme)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "training of large language models")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${TRIREME_PACKAGE_MAINTAINER})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME trireme)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
string(CONCAT CPACK_DEBIAN_PROGRAM_DESCRIPTION
       "One program that plans, trains and tries language models on CPUs, "
       "on one rank\nor on many, and reads and writes the files of other programs.")

string(CONCAT needed
       "libfmt-dev, libtomlplusplus-dev, libxxhash-dev, libzstd-dev, zlib1g-dev, libssl-dev, "
       "libisal-dev, libpng-dev, libjpeg-dev")
if(TRIREME_NEEDS_MPI)
  string(APPEND needed ", libopenmpi-dev")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtrireme-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ${needed})
string(CONCAT CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
       "Headers, archive and CMake package of Trireme: plan, train, load "
       "and generate\nfrom another C++ program.")
include(CPack)
