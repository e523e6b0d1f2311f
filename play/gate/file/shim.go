package file

// ShimArg, as the first argument, makes a binary that calls [ShimMain] become
// the shim before a program. It is no part of any command line for people.
const ShimArg = "holdfast-file-gate-shim"
