# find_package(nearcall): the library for C and C++, and code of interfaces.
#
#   nearcall::nearcall          the shared library and its headers
#   nearcall::static            the static library and its headers
#   nearcall_generate(TARGET FILE.proto... [IMPORT_DIRS DIR...])
#                               generates messages and services into a target by protoc and
#                               `nearcall gen --lang cpp`
#
# Invariants: nothing is looked for but next to this file, until a function is called.
# Not here: which versions fit (nearcall-config-version.cmake).

get_filename_component(_nearcall_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET nearcall::nearcall)
  add_library(nearcall::nearcall SHARED IMPORTED)
  set_target_properties(nearcall::nearcall PROPERTIES
    IMPORTED_LOCATION "${_nearcall_prefix}/lib/libnearcall.so.0"
    IMPORTED_SONAME libnearcall.so.0
    INTERFACE_INCLUDE_DIRECTORIES "${_nearcall_prefix}/include")
endif()

if(NOT TARGET nearcall::static)
  add_library(nearcall::static STATIC IMPORTED)
  set_target_properties(nearcall::static PROPERTIES
    IMPORTED_LOCATION "${_nearcall_prefix}/lib/libnearcall.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_nearcall_prefix}/include"
    INTERFACE_LINK_LIBRARIES "pthread;dl;m;gcc_s")
endif()

set(NEARCALL_PROTO_DIR "${_nearcall_prefix}/share/nearcall/proto" CACHE INTERNAL "")
set(NEARCALL_PROGRAM_HINT "${_nearcall_prefix}/bin" CACHE INTERNAL "")

# Finds protoc, its library and `nearcall`.
macro(_nearcall_find_tools)
  find_program(NEARCALL_PROGRAM nearcall HINTS "${NEARCALL_PROGRAM_HINT}"
    DOC "The program nearcall, which generates code")
  if(NOT NEARCALL_PROGRAM)
    message(FATAL_ERROR "nearcall_generate needs the program `nearcall`: install it by "
      "`cargo install nearcall-cli`, or set NEARCALL_PROGRAM to its path")
  endif()
  if(NOT TARGET protobuf::libprotobuf)
    find_package(Protobuf CONFIG QUIET)
  endif()
  if(NOT TARGET protobuf::libprotobuf)
    find_package(Protobuf REQUIRED)
  endif()
  if(NOT TARGET protobuf::protoc)
    message(FATAL_ERROR "nearcall_generate needs protoc: install protobuf-compiler")
  endif()
endmacro()

# The messages of nearcall/options.proto, once for all targets of a program: protobuf refuses two.
macro(_nearcall_add_options_library)
  if(NOT TARGET nearcall_options_proto)
    set(_nearcall_out "${CMAKE_CURRENT_BINARY_DIR}/nearcall/options")
    set(_nearcall_made "${_nearcall_out}/nearcall/options.pb")
    file(MAKE_DIRECTORY "${_nearcall_out}")
    add_custom_command(
      OUTPUT "${_nearcall_made}.cc" "${_nearcall_made}.h"
      COMMAND protobuf::protoc "-I${NEARCALL_PROTO_DIR}" "--cpp_out=${_nearcall_out}"
        nearcall/options.proto
      DEPENDS "${NEARCALL_PROTO_DIR}/nearcall/options.proto"
      VERBATIM)
    add_library(nearcall_options_proto STATIC "${_nearcall_made}.cc" "${_nearcall_made}.h")
    target_include_directories(nearcall_options_proto PUBLIC "${_nearcall_out}")
    target_link_libraries(nearcall_options_proto PUBLIC protobuf::libprotobuf)
    target_compile_features(nearcall_options_proto PUBLIC cxx_std_17)
    set_target_properties(nearcall_options_proto PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
endmacro()

# The name by which other files import `path`: below the first directory that has it.
function(_nearcall_name path directories result)
  foreach(directory IN LISTS directories)
    file(RELATIVE_PATH name "${directory}" "${path}")
    if(NOT name MATCHES "^\\.\\./" AND NOT IS_ABSOLUTE "${name}")
      set(${result} "${name}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "nearcall_generate: ${path} lies in no directory of IMPORT_DIRS")
endfunction()

function(nearcall_generate target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "IMPORT_DIRS")
  if(NOT TARGET ${target})
    message(FATAL_ERROR "nearcall_generate: there is no target `${target}`")
  endif()
  if(NOT arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "nearcall_generate: name .proto files after the target `${target}`")
  endif()
  _nearcall_find_tools()
  set(paths)
  set(directories)
  foreach(file IN LISTS arg_UNPARSED_ARGUMENTS)
    get_filename_component(path "${file}" ABSOLUTE)
    if(NOT EXISTS "${path}")
      message(FATAL_ERROR "nearcall_generate: there is no file ${path}")
    endif()
    list(APPEND paths "${path}")
    get_filename_component(directory "${path}" DIRECTORY)
    list(APPEND directories "${directory}")
  endforeach()
  # As for `nearcall gen`: the default is the directory of each file.
  if(arg_IMPORT_DIRS)
    set(directories)
    foreach(directory IN LISTS arg_IMPORT_DIRS)
      get_filename_component(directory "${directory}" ABSOLUTE)
      list(APPEND directories "${directory}")
    endforeach()
  endif()
  list(REMOVE_DUPLICATES directories)
  set(protoc_includes)
  set(nearcall_includes)
  foreach(directory IN LISTS directories)
    list(APPEND protoc_includes "-I${directory}")
    list(APPEND nearcall_includes --include "${directory}")
  endforeach()
  set(out "${CMAKE_CURRENT_BINARY_DIR}/nearcall/${target}")
  file(MAKE_DIRECTORY "${out}")
  set(libraries protobuf::libprotobuf nearcall::nearcall)
  foreach(path IN LISTS paths)
    _nearcall_name("${path}" "${directories}" name)
    string(REGEX REPLACE "\\.proto$" "" stem "${name}")
    set(made "${out}/${stem}.pb.cc" "${out}/${stem}.pb.h" "${out}/${stem}.nearcall.hpp")
    add_custom_command(
      OUTPUT ${made}
      COMMAND protobuf::protoc ${protoc_includes} "-I${NEARCALL_PROTO_DIR}" "--cpp_out=${out}"
        "${path}"
      COMMAND "${NEARCALL_PROGRAM}" gen --lang cpp "${path}" ${nearcall_includes}
        --out-dir "${out}"
      # One that would not change is not written, and would stay older than its source.
      COMMAND "${CMAKE_COMMAND}" -E touch_nocreate "${out}/${stem}.nearcall.hpp"
      DEPENDS ${paths} "${NEARCALL_PROGRAM}"
      COMMENT "Generating ${name} for ${target}"
      VERBATIM)
    target_sources(${target} PRIVATE ${made})
    file(READ "${path}" text)
    if(text MATCHES "nearcall/options\\.proto")
      _nearcall_add_options_library()
      list(APPEND libraries nearcall_options_proto)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES libraries)
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${out}>")
  target_compile_features(${target} PUBLIC cxx_std_17)
  # Not by target_link_libraries, whose two forms a target cannot have both.
  set_property(TARGET ${target} APPEND PROPERTY LINK_LIBRARIES ${libraries})
  set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${libraries})
endfunction()
