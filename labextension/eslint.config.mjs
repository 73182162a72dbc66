import js from '@eslint/js';
import hooks from 'eslint-plugin-react-hooks';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['dist', 'lib', 'src/api/protocol.gen.ts', '*.cjs', '*.mjs', 'scripts', 'style'] },
  js.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { project: './tsconfig.test.json', tsconfigRootDir: import.meta.dirname } },
    plugins: { 'react-hooks': hooks },
    rules: {
      ...hooks.configs.recommended.rules,
      // A token and the interface that it stands for share a name: Lab's own habit.
      '@typescript-eslint/no-redeclare': 'off',
      'no-redeclare': 'off',
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/no-non-null-assertion': 'error',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      // What Lab's types promise to be there is not there in every front end.
      '@typescript-eslint/no-unnecessary-condition': 'off'
    }
  },
  { files: ['src/__tests__/**'], rules: { '@typescript-eslint/no-non-null-assertion': 'off' } }
);
