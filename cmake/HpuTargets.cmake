# hpu_library(name SOURCES ... [DEPS ...] [PCH target]) makes a static library of ours whose include
# root is the source tree. PCH is the target whose precompiled header it uses, by default hpu_pch.
# hpu_test(name SOURCES ... [DEPS ...] [LABELS ...] [PCH target]) makes a GoogleTest binary that is
# registered with ctest. Target hpu_tests builds all of them. The labels no-sanitizer and no-tsan
# mark tests that cannot run under one, for the reason given there. PCH is hpu_test_pch by default.
# hpu_precompiled(target HEADER ... [DEPS ...] [PIE]) makes a precompiled header and the target that
# builds it. PIE is for executables, whose code is generated differently from that of libraries.
# Parsing foreign headers is most of the compile time, so there is one header for each kind of code.
# hpu_unity(target) lets a target of the product compile up to 20 of its files at once, in parts of
# equal size (option HPU_UNITY, docs/decisions/0040-first-build.md). hpu_library does this by itself.
# CMake compiles files that have flags of their own alone.
# hpu_generated_library(name SOURCES ... DEPS ... [PCH target]) makes a static library of what protoc
# wrote. Its files repeat each other's names, so each is compiled alone. They are compiled quickly,
# because they only copy a few fields per message.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # ccache requires these settings for precompiled headers, and paths that are relative to the
  # source tree: another build folder or another clone then finds what one has compiled.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_NOHASHDIR=1
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

add_library(hpu_compile_flags INTERFACE)
target_include_directories(hpu_compile_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_options(hpu_compile_flags INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers
                       -fno-semantic-interposition)
# GCC 12 mistakes "text" + std::string for an overlapping copy, or for one beyond the end of the
# text, and an empty std::optional for a full one (its bugs 105651, 105329, 105562).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  foreach(wrong restrict array-bounds stringop-overflow stringop-overread maybe-uninitialized)
    target_compile_options(hpu_compile_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-${wrong}>)
  endforeach()
endif()
# This lets ccache look inside a precompiled header.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(hpu_compile_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()
if(HPU_WERROR)
  target_compile_options(hpu_compile_flags INTERFACE -Werror)
endif()
if(HPU_SANITIZE)
  target_compile_options(hpu_compile_flags INTERFACE -fsanitize=${HPU_SANITIZE} -fno-omit-frame-pointer
                                                     -fno-sanitize-recover=all)
  target_link_options(hpu_compile_flags INTERFACE -fsanitize=${HPU_SANITIZE})
endif()

set(hpu_sanitizer_options
  ASAN_OPTIONS=detect_stack_use_after_return=1:check_initialization_order=1:strict_init_order=1
  UBSAN_OPTIONS=print_stacktrace=1
  TSAN_OPTIONS=second_deadlock_stack=1:suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp)
add_custom_target(hpu_tests)

function(hpu_precompiled name)
  cmake_parse_arguments(ARG "PIE" "HEADER" "DEPS" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/pch/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// A precompiled header belongs to a target with sources.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE hpu_compile_flags ${ARG_DEPS})
  target_precompile_headers(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_HEADER})
  if(ARG_PIE)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIE)
  endif()
endfunction()

function(hpu_unity name)
  get_target_property(sources ${name} SOURCES)
  list(LENGTH sources count)
  math(EXPR parts "(${count} + 19) / 20")
  math(EXPR batch "(${count} + ${parts} - 1) / ${parts}")
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${HPU_UNITY} UNITY_BUILD_BATCH_SIZE ${batch})
endfunction()

function(hpu_library name)
  cmake_parse_arguments(ARG "" "PCH" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC hpu_compile_flags ${ARG_DEPS})
  if(NOT ARG_PCH)
    set(ARG_PCH hpu_pch)
  endif()
  target_precompile_headers(${name} REUSE_FROM ${ARG_PCH})
  hpu_unity(${name})
endfunction()

function(hpu_generated_library name)
  cmake_parse_arguments(ARG "" "PCH" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  target_include_directories(${name} PUBLIC ${CMAKE_BINARY_DIR} ${CMAKE_CURRENT_BINARY_DIR})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(ARG_PCH)
    target_precompile_headers(${name} REUSE_FROM ${ARG_PCH})
  endif()
endfunction()

function(hpu_test name)
  cmake_parse_arguments(ARG "" "PCH" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT HPU_BUILD_TESTS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE hpu_compile_flags ${ARG_DEPS} GTest::gmock GTest::gtest
                                        GTest::gtest_main)
  # Tests are compiled so often that a short compilation matters more than a fast test.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(NOT ARG_PCH)
    set(ARG_PCH hpu_test_pch)
  endif()
  target_precompile_headers(${name} REUSE_FROM ${ARG_PCH})
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  # Many processes of tests hold emulated devices at the same time.
  set(environment HPU_EMULATOR_MODULES=1024)
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300)
  if(HPU_SANITIZE)
    list(APPEND environment ${hpu_sanitizer_options})
    set_tests_properties(${name} PROPERTIES TIMEOUT 1800)
  endif()
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}")
  add_dependencies(hpu_tests ${name})
endfunction()
