package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// TestReadme checks that the README lists every type of problem there is.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "problem.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	types := 0
	ast.Inspect(file, func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		if !ok || b.Op != token.ADD {
			return true
		}
		x, isBase := b.X.(*ast.Ident)
		y, isName := b.Y.(*ast.BasicLit)
		if isBase && isName && x.Name == "problemBase" {
			types++
			if row := "| `" + problemBase + strings.Trim(y.Value, `"`) + "` |"; !strings.Contains(string(readme), row) {
				t.Errorf("README has no row %s", row)
			}
		}
		return true
	})
	if rows := strings.Count(string(readme), "| `"+problemBase); types == 0 || rows != types {
		t.Errorf("README has %d rows for %d types", rows, types)
	}
}
