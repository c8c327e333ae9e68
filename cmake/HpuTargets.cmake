# hpu_library(name SOURCES ... [DEPS ...]) - a static library of ours, include root is the source tree.
# hpu_test(name SOURCES ... [DEPS ...] [LABELS ...]) - a GoogleTest binary registered with ctest. Target
#   hpu_tests builds all of them. Labels no-sanitizer, no-tsan: cannot run under one, for the reason given there.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(hpu_compile_flags INTERFACE)
target_include_directories(hpu_compile_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_options(hpu_compile_flags INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers
                       -fno-semantic-interposition)
# GCC 12 takes "text" + std::string for an overlapping copy (its bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(hpu_compile_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
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

function(hpu_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC hpu_compile_flags ${ARG_DEPS})
endfunction()

function(hpu_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT HPU_BUILD_TESTS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE hpu_compile_flags ${ARG_DEPS} GTest::gmock GTest::gtest
                                        GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300)
  if(HPU_SANITIZE)
    set_tests_properties(${name} PROPERTIES TIMEOUT 1800 ENVIRONMENT "${hpu_sanitizer_options}")
  endif()
  add_dependencies(hpu_tests ${name})
endfunction()
