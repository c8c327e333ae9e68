# HPU_STAGE=FOLDER cpack --config deployment/debian/CPackConfig.cmake -D CPACK_PACKAGE_VERSION=VERSION -B FOLDER
# Makes the Debian package of the server from HPU_STAGE, whose layout is that of /. `./dev deb` runs
# it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME hpu-compile-server)
set(CPACK_PACKAGE_CONTACT "hpu_backend <root@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compile server of hpu_backend for PyTorch on Intel Gaudi")
set(CPACK_PACKAGE_DESCRIPTION
    "Compiles graphs that torch.compile captured to Gaudi recipes, keeps them and\nhands them to every host that asks. Comes with a systemd unit, which is not enabled\nuntil /etc/hpu-compile-server/server.conf says who may call.")
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "prometheus, redis-server, systemd")
# The package depends on Debian's own libraries, so that its security updates reach the server. The
# libraries that the package itself contains (for a server taken from a wheel) are found in the
# private folder.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS $ENV{HPU_STAGE}/usr/lib/hpu-compile-server/hpu_backend.libs)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
foreach(script conffiles postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/${script})
endforeach()
# The bytes are the build id, so nothing may be stripped here.
set(CPACK_STRIP_FILES OFF)
set(CPACK_INSTALLED_DIRECTORIES $ENV{HPU_STAGE} /)
set(CPACK_PACKAGING_INSTALL_PREFIX /)
set(CPACK_PACKAGE_FILE_NAME hpu-compile-server)
