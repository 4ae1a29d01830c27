check slug.sh 'Hello World' 'hello-world'
check slug.sh 'Hello, World!' 'hello-world'
check slug.sh '  Two   spaces ' 'two-spaces'
