package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// step matches one step of a path: a package directory and a function, which may be a method or a C function.
var step = regexp.MustCompile("`((?:internal|plugins|cmd)/[a-z0-9_/-]+)\\.([A-Za-z_]\\w*(?:\\.\\w+)?)`")

func TestEachStepOfAPathExists(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/explanation/architecture.md"))
	require.NoError(t, err)
	for _, title := range []string{"## Path of a point", "## Path of an event", "## Path of an order"} {
		_, section, found := strings.Cut(string(text), title+"\n")
		require.True(t, found, title)
		section, _, _ = strings.Cut(section, "\n## ")
		steps := step.FindAllStringSubmatch(section, -1)
		require.Greater(t, len(steps), 5, title)
		for _, s := range steps {
			require.Contains(t, declaredFunctions(t, s[1]), s[2], "%s: %s", title, path.Base(s[1]))
		}
	}
}

// declaredFunctions returns the names of the Go and C functions that a package declares. A method has the name of its type before it.
func declaredFunctions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, dir)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				all[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						addMethods(all, s)
					}
				}
			}
		}
	}
	sources, err := filepath.Glob(filepath.Join(root, dir, "*.c"))
	require.NoError(t, err)
	for _, name := range sources {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, f := range regexp.MustCompile(`(?m)^\w[\w \t*]*?(\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			all[f[1]] = true
		}
	}
	return all
}

// receiver returns the type of a method with a dot, and nothing for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// addMethods adds the methods of an interface.
func addMethods(all map[string]bool, s *ast.TypeSpec) {
	of, ok := s.Type.(*ast.InterfaceType)
	if !ok {
		return
	}
	for _, m := range of.Methods.List {
		for _, name := range m.Names {
			all[s.Name.Name+"."+name.Name] = true
		}
	}
}
