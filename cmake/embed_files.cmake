# cmake -DOUT=builtin_machines.cc -DFILES="a.toml;b.toml" -P embed_files.cmake: the files' text as a source file; see
# topology/builtin_machines.h. A raw text is cut into pieces, because compilers bound one.

function(literal file result)
  file(READ "${file}" text HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" text "${text}")
  string(REGEX REPLACE "((\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..))" "\\1\"\n\"" text "${text}")
  set(${result} "\"${text}\"" PARENT_SCOPE)
endfunction()

set(machines "")
set(parts_text "\"\"")
foreach(file ${FILES})
  get_filename_component(name "${file}" NAME_WE)
  literal("${file}" text)
  if(name STREQUAL "parts")
    set(parts_text "${text}")
  else()
    string(APPEND machines "    {\"${name}\", ${text}},\n")
  endif()
endforeach()

file(WRITE "${OUT}" "// Made of configs/machines by cmake/embed_files.cmake.
#include \"topology/builtin_machines.h\"

namespace colibri {
namespace {

constexpr BuiltinMachine kMachines[] = {
${machines}};

}  // namespace

std::string_view builtin_parts() { return ${parts_text}; }

std::span<const BuiltinMachine> builtin_machines() { return kMachines; }

}  // namespace colibri
")
